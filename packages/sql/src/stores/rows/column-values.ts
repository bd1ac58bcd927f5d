/** What the values of a column are in a program. */
export type ColumnKind = 'integer' | 'decimal' | 'float' | 'boolean' | 'json' | 'instant' | 'bytes' | 'text'

/**
 * Converts the text of a value, so that every library returns the same: instants are given in milliseconds since 1970,
 * bytes in hexadecimal.
 */
export function columnValue(kind: ColumnKind, text: string | null): unknown {
  if (text === null) return null
  switch (kind) {
    case 'integer':
      return integer(text)
    case 'float':
      return Number(text)
    case 'boolean':
      return text === 'true'
    case 'json':
      return JSON.parse(text) as unknown
    case 'bytes':
      return Uint8Array.from(Buffer.from(text, 'hex'))
    case 'instant':
      // Text, such as 'infinity', is no instant that a Date can represent.
      return /^-?\d+$/.test(text) ? new Date(Number(text)) : text
    case 'decimal':
    case 'text':
      return text
  }
}

/** A number beyond 2^53 would be rounded. */
function integer(text: string): number | bigint {
  const number = Number(text)
  return Number.isSafeInteger(number) ? number : BigInt(text)
}
