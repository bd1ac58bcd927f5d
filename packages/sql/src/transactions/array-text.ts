/** A value that every library can send. */
export type PlainValue = string | Buffer | null

/**
 * Converts the values of a statement for PostgreSQL to values that every library can send without knowing their types.
 * A list becomes the text of an array.
 */
export function plainValues(values: readonly unknown[]): readonly PlainValue[] {
  return values.map(plainValue)
}

export function plainValue(value: unknown): PlainValue {
  if (value === null || value === undefined) return null
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  if (Array.isArray(value)) return arrayText(value)
  // oxlint-disable-next-line typescript/no-base-to-string -- the values of txbox's statements are texts and numbers
  return String(value)
}

/** https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO */
function arrayText(list: readonly unknown[]): string {
  return `{${list.map(elementText).join(',')}}`
}

function elementText(element: unknown): string {
  const value = plainValue(element)
  if (value === null) return 'NULL'
  const text = typeof value === 'string' ? value : `\\x${value.toString('hex')}`
  return `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`
}
