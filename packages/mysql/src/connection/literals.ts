/*
 * On MySQL and MariaDB, values are part of the text of a statement; PostgreSQL gets them as parameters, and only its COPY
 * needs literals (`sql/src/transactions/drivers/postgres-literals.ts`).
 *
 * Inserts values into the text of a statement as literals instead of parameters. Values that are not plain are written
 * in hexadecimal, so that neither the connection's character set, nor sql_mode (NO_BACKSLASH_ESCAPES, ANSI_QUOTES), nor
 * an option of the driver (queryFormat, namedPlaceholders) can change the value. Nothing is ever escaped.
 */

/** A value for a `?` in a statement. The members of a list are separated by commas. */
export type Value = string | Utf8 | Uint8Array | number | bigint | null | readonly Value[]

/** Text for a binary column, which is stored as UTF-8. */
export interface Utf8 {
  readonly utf8: string
}

/**
 * From this size on, bytes are sent in Base64: hexadecimal doubles the size of a payload, Base64 adds a third, and the
 * statement must fit into a packet.
 */
const BASE64_FROM_BYTES = 4096

/** Text whose meaning between quotes is the same in every SQL mode and character set. */
const PLAIN = /^[\w .,:;/+=@#"()[\]{}<>|&!~^%$*-]*$/

/** Every `?` in the statement is a placeholder. */
export function fill(text: string, values: readonly Value[]): string {
  if (values.length === 0) return text
  let filled = ''
  let from = 0
  for (const value of values) {
    const place = text.indexOf('?', from)
    if (place === -1)
      throw new Error(`A statement was given ${values.length} values, but has fewer placeholders.`)
    filled += text.slice(from, place) + literal(value)
    from = place + 1
  }
  if (text.includes('?', from)) {
    throw new Error(`A statement was given ${values.length} values, but has more placeholders.`)
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

export function microseconds(ms: number): number {
  return Math.round(ms * 1000)
}

/** Encodes numbers, or lists of numbers, as a JSON array. The texts are used unchanged. */
export function json(values: readonly string[]): string {
  return `[${values.join(',')}]`
}

/**
 * Returns a result value as text. The value is a Buffer if txbox controls the decoding, or a string if the library
 * does.
 */
export function textOf(value: unknown): string {
  return bytesOf(value).toString('utf8')
}

/**
 * Returns the bytes of a result value of a binary type. If the value is a string, each character stands for one byte.
 */
export function bytesOf(value: unknown): Buffer {
  return Buffer.isBuffer(value) ? value : Buffer.from(String(value), 'latin1')
}
