import { InvalidOptionError } from '@txbox/core'
import { OptionChecker, nameOf, oneLine } from '@txbox/core/internal'
import { isExpression, sql, type RawBuilder } from 'kysely'
import { VersionConflictError } from '../errors.ts'
import type { Condition, KeyedRow } from './keyed-row.ts'
import { asKindOf, exactVersion, type Version } from '../version.ts'

export function versionColumnOf(where: string, options: { versionColumn?: unknown }): string {
  return new OptionChecker(where, options).text('versionColumn', { max: 255, default: 'version' })
}

/**
 * @returns a copy. Its functions throw an InvalidOptionError when they do not return an expression.
 * @throws {InvalidOptionError} when `set` is not an object, or names the column that txbox writes itself.
 */
export function checkedSet(where: string, set: unknown, managed: string): Readonly<Record<string, unknown>> {
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
  return Object.fromEntries(
    Object.entries(set).map(([column, value]: [string, unknown]) => [
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

/** @throws {InvalidOptionError} when the version is null or not a whole number. */
export function foundVersion(row: KeyedRow, column: string, found: string | null): bigint {
  if (found !== null && /^-?\d+$/.test(found)) return BigInt(found)
  throw new InvalidOptionError(
    `${row.doing}: the column '${oneLine(column)}' holds ${nameOf(found)}, which is not a version; expected a whole number. Correct the ` +
      'value, and make the column NOT NULL with an integer type.',
  )
}

/** @throws {VersionConflictError} when the row is at another version. */
export function conflictUnlessAt(row: KeyedRow, where: string, expected: Version, actual: bigint): undefined {
  if (actual === exactVersion(where, 'expected', expected)) return undefined
  throw new VersionConflictError(
    `${row.doing} is at version ${actual}, not at the expected version ${expected}. Nothing was written. Read the row again, ` +
      'decide again and retry.',
    { expected, actual: asKindOf(where, expected, actual) },
  )
}
