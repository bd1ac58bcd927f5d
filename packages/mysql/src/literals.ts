/*
 * Values as literals in the text of a statement, instead of as parameters: in hexadecimal unless plain, so that
 * neither the connection's character set, nor sql_mode (NO_BACKSLASH_ESCAPES, ANSI_QUOTES), nor an option of the driver
 * (queryFormat, namedPlaceholders) can change what arrives. Nothing is ever escaped.
 */

/** What a `?` in a statement can stand for; a list stands for its members, between commas. */
export type Value = string | Utf8 | Uint8Array | number | bigint | null | readonly Value[]

/** A text for a column of bytes: its bytes in UTF-8. */
export interface Utf8 {
  readonly utf8: string
}

/** Hexadecimal doubles the size of a payload, Base64 adds a third; a packet must hold it. */
const BASE64_FROM_BYTES = 4096

/** Text that means itself between quotes in every SQL mode and character set. */
const PLAIN = /^[\w .,:;/+=@#"()[\]{}<>|&!~^%$*-]*$/

/** A statement with its values in place. `?` stands for a value, and for nothing else. */
export function fill(text: string, values: readonly Value[]): string {
  if (values.length === 0) return text
  let filled = ''
  let from = 0
  for (const value of values) {
    const place = text.indexOf('?', from)
    if (place === -1) throw new Error(`A statement was given ${values.length} values, and has fewer places.`)
    filled += text.slice(from, place) + literal(value)
    from = place + 1
  }
  if (text.includes('?', from)) {
    throw new Error(`A statement was given ${values.length} values, and has more places.`)
  }
  return filled + text.slice(from)
}

export function literal(value: Value): string {
  if (value === null) return 'null'
  if (typeof value === 'string') return text(value)
  if (typeof value === 'number' || typeof value === 'bigint') return integer(value)
  if (value instanceof Uint8Array) return bytes(value)
  if ('utf8' in value) return utf8(value.utf8)
  return value.map(literal).join(',')
}

function text(value: string): string {
  return PLAIN.test(value) ? `_utf8mb4'${value}'` : `_utf8mb4 X'${Buffer.from(value).toString('hex')}'`
}

function utf8(value: string): string {
  return PLAIN.test(value) ? `_binary'${value}'` : bytes(Buffer.from(value))
}

function bytes(value: Uint8Array): string {
  const buffer = Buffer.isBuffer(value)
    ? value
    : Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  if (buffer.byteLength < BASE64_FROM_BYTES) return `X'${buffer.toString('hex')}'`
  return `from_base64('${buffer.toString('base64')}')`
}

function integer(value: number | bigint): string {
  if (typeof value === 'number' && !Number.isSafeInteger(value)) {
    throw new RangeError(`${value} is no whole number.`)
  }
  return String(value)
}

/** The text of a value that came back: a Buffer by our own reading, a string where the library has a say in it. */
export function textOf(value: unknown): string {
  return bytesOf(value).toString('utf8')
}

/** The bytes of a value of a binary type. A string of one has a character for each byte. */
export function bytesOf(value: unknown): Buffer {
  return Buffer.isBuffer(value) ? value : Buffer.from(String(value), 'latin1')
}

export function optionalTextOf(value: unknown): string | undefined {
  return value === null || value === undefined ? undefined : textOf(value)
}
