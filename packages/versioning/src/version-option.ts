import { InvalidOptionError, OptionChecker, nameOf, oneLine } from '@txbox/core'
import { sql, type RawBuilder } from 'kysely'
import { VersionConflictError } from './errors.ts'
import type { Condition, KeyedRow } from './keyed-row.ts'
import { asKindOf, exactVersion, type Version } from './version.ts'

/** The name of the version column among the options. */
export function versionColumnOf(where: string, options: { versionColumn?: unknown }): string {
  return new OptionChecker(where, options).text('versionColumn', { max: 255, default: 'version' })
}

/** @throws {InvalidOptionError} when `set` is no object, or names the column that txbox writes itself. */
export function checkedSet(where: string, set: unknown, ours: string): Readonly<Record<string, unknown>> {
  if (typeof set !== 'object' || set === null || Array.isArray(set)) {
    throw new InvalidOptionError(
      `${where}: 'set' must be an object of columns and values, not ${nameOf(set)}.`,
    )
  }
  if (Object.hasOwn(set, ours) && Reflect.get(set, ours) !== undefined) {
    throw new InvalidOptionError(`${where}: 'set' must not name '${oneLine(ours)}': txbox writes it.`)
  }
  return set as Readonly<Record<string, unknown>>
}

export function isAt(row: KeyedRow, column: string, version: bigint): Condition {
  return [column, '=', row.dialect.version(version)]
}

/** The version as text, exact whatever the driver makes of numbers. */
export function versionText(row: KeyedRow, column: string): RawBuilder<string | null> {
  return row.dialect.textOf(sql.ref(column))
}

/** @throws {InvalidOptionError} when the row has no version, or one that is no whole number. */
export function foundVersion(row: KeyedRow, column: string, found: string | null): bigint {
  if (found !== null && /^-?\d+$/.test(found)) return BigInt(found)
  throw new InvalidOptionError(
    `${row.doing}: column '${oneLine(column)}' holds ${nameOf(found)}, which is no version. Expected a whole number. Set it, and make ` +
      'the column NOT NULL of an integer type.',
  )
}

/** Tells a write that found the row at another version. → `undefined` when it is at the expected one by now. */
export function conflictUnlessAt(row: KeyedRow, where: string, expected: Version, actual: bigint): undefined {
  if (actual === exactVersion(where, 'expected', expected)) return undefined
  throw new VersionConflictError(
    `${row.doing} is at version ${actual}; expected was ${expected}. Nothing was written. Read the row again and decide anew.`,
    { expected, actual: asKindOf(where, expected, actual) },
  )
}
