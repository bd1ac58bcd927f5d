import { InvalidOptionError } from '@txbox/core'
import { nameOf, oneLine } from '@txbox/core/internal'

/**
 * @returns the columns of `set` with their values.
 * @throws {InvalidOptionError} when `set` is not an object, or names the column that txbox writes itself.
 */
export function setEntries(
  where: string,
  set: unknown,
  managed: string,
): readonly (readonly [string, unknown])[] {
  if (typeof set !== 'object' || set === null || Array.isArray(set)) {
    throw new InvalidOptionError(
      `${where}: 'set' must be an object of columns and values, not ${nameOf(set)}.`,
    )
  }
  if (Object.hasOwn(set, managed) && Reflect.get(set, managed) !== undefined) {
    throw new InvalidOptionError(
      `${where}: 'set' must not contain '${oneLine(managed)}': txbox writes this column itself.`,
    )
  }
  return Object.entries(set)
}

/** Checks that the new row has the key of `where`; otherwise later calls would never find the inserted row. */
export function checkedInsert(
  row: { readonly doing: string; readonly key: Readonly<Record<string, unknown>> },
  insert: object,
): Readonly<Record<string, unknown>> {
  for (const [column, value] of Object.entries(row.key)) {
    const given: unknown = Reflect.get(insert, column)
    // The value of an expression is not known here.
    if (given === undefined || typeof given !== typeof value || typeof given === 'object' || given === value)
      continue
    throw new InvalidOptionError(
      `${row.doing}: 'insert' and 'where' have different values for '${column}'. Nothing was written. Remove '${column}' from 'insert'.`,
    )
  }
  return insert as Readonly<Record<string, unknown>>
}
