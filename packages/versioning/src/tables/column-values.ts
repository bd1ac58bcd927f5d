import { InvalidOptionError } from '@txbox/core'
import { isLostInJson, nameOf, oneLine } from '@txbox/core/internal'
import type { ColumnValue, ColumnValues } from '@txbox/core/ports'
import { isDate } from '../rules/instant.ts'

/** Four digits, as all databases write them. */
const YEAR = /^(?!0000)\d{4}-/

/**
 * Converts the values of columns. Columns whose value is `undefined` are left out.
 *
 * @param option the name of the option, for error messages.
 * @throws {InvalidOptionError} for a value that no column can have.
 */
export function columnValues(
  row: { readonly doing: string },
  option: string,
  entries: readonly (readonly [string, unknown])[],
): ColumnValues {
  const values: Record<string, ColumnValue> = {}
  for (const [column, value] of entries) {
    if (value === undefined) continue
    const what = (): string => `${row.doing}: in '${option}', the value of '${oneLine(column)}'`
    values[column] = columnValue(what, value)
  }
  return values
}

function columnValue(what: () => string, value: unknown): ColumnValue {
  if (value === null || typeof value === 'boolean' || typeof value === 'bigint') return value
  if (typeof value === 'string') return value
  if (value instanceof Uint8Array) return value
  if (typeof value === 'number' && Number.isFinite(value)) return value
  if (isDate(value)) return checkedDate(what, value)
  if (typeof value === 'object' && isPlain(value)) return json(what, value)
  throw new InvalidOptionError(
    `${what()} must be a string, a finite number, a bigint, a boolean, a Date, bytes, null, or a plain object or an array, which is ` +
      `written as JSON; not ${nameOf(value)}. Nothing was written. An expression of SQL is no value: read the row and pass the ` +
      'result, or use updateMerged.',
  )
}

/** A Date of another realm is no instance of this one's class. */
function checkedDate(what: () => string, date: Date): Date {
  if (!Number.isNaN(date.getTime()) && YEAR.test(date.toISOString())) return new Date(date.getTime())
  throw new InvalidOptionError(
    `${what()} must be a Date of the years 1 to 9999, not an invalid or another one. Nothing was written.`,
  )
}

/** Objects of classes, such as the expressions of a library, are no JSON. */
function isPlain(value: object): boolean {
  if (Array.isArray(value)) return true
  const prototype: unknown = Object.getPrototypeOf(value)
  // The prototype of a plain object of any realm is the end of its chain.
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

function json(what: () => string, value: object): string {
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (cause) {
    throw new InvalidOptionError(
      `${what()} cannot be written as JSON: it has a bigint or a circle, or a toJSON that throws. Nothing was written.`,
      { cause },
    )
  }
  if (text !== undefined && !isLostInJson(value, text)) return text
  throw new InvalidOptionError(
    `${what()} cannot be written as JSON, not ${nameOf(value)}. Nothing was written.`,
  )
}
