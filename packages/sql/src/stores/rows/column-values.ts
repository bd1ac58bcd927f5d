/** What the values of a column are in a program. */
export type ColumnKind = 'integer' | 'decimal' | 'float' | 'boolean' | 'json' | 'instant' | 'bytes' | 'text'

/**
 * Converts the text of a value, so that every library returns the same: instants are given in milliseconds since 1970,
 * bytes in hexadecimal.
 */
export function columnValue(kind: ColumnKind, text: string | null): unknown {
  return text === null ? null : CONVERSIONS[kind](text)
}

const CONVERSIONS: Readonly<Record<ColumnKind, (text: string) => unknown>> = {
  integer,
  decimal: (text) => text,
  float: Number,
  boolean: (text) => text === 'true',
  json: (text) => JSON.parse(text) as unknown,
  // Text, such as 'infinity', is no instant that a Date can represent.
  instant: (text) => (/^-?\d+$/.test(text) ? new Date(Number(text)) : text),
  bytes: (text) => Uint8Array.from(Buffer.from(text, 'hex')),
  text: (text) => text,
}

/** A number beyond 2^53 would be rounded. */
function integer(text: string): number | bigint {
  const number = Number(text)
  return Number.isSafeInteger(number) ? number : BigInt(text)
}
