import { InvalidOptionError } from '@txbox/core'
import { nameOf, oneLine } from '@txbox/core/internal'
import { isExpression, sql, type RawBuilder } from 'kysely'
import { setEntries } from '../rules/set-option.ts'
import type { Condition, KeyedRow } from './keyed-row.ts'

export { conflictUnlessAt, foundVersion, versionColumnOf } from '../rules/found-version.ts'

/**
 * @returns a copy. Its functions throw an InvalidOptionError when they do not return an expression.
 * @throws {InvalidOptionError} when `set` is not an object, or names the column that txbox writes itself.
 */
export function checkedSet(where: string, set: unknown, managed: string): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    setEntries(where, set, managed).map(([column, value]) => [
      column,
      typeof value === 'function' ? expressionOf(where, column, value as Factory) : value,
    ]),
  )
}

type Factory = (builder: unknown) => unknown

/**
 * Kysely reads a property of what the function returns. Without this check, its TypeError would not name the column.
 */
function expressionOf(where: string, column: string, factory: Factory): Factory {
  return (builder) => {
    const expression = factory(builder)
    if (isExpression(expression)) return expression
    throw new InvalidOptionError(
      `${where}: in 'set', the function of '${oneLine(column)}' must return a Kysely expression, not ${nameOf(expression)}. ` +
        'Nothing was written.',
    )
  }
}

export function isAt(row: KeyedRow, column: string, version: bigint): Condition {
  return [column, '=', row.dialect.version(version)]
}

/** Returns the version as text, which is exact for every driver. */
export function versionText(row: KeyedRow, column: string): RawBuilder<string | null> {
  return row.dialect.textOf(sql.ref(column))
}
