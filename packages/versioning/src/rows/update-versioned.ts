import { OptionChecker } from '@txbox/core/internal'
import { assertFits } from './column-range.ts'
import { KeyedRow } from './keyed-row.ts'
import { onKeyedRow } from './on-keyed-row.ts'
import type {
  AnyKysely,
  DefaultVersion,
  Named,
  RowKey,
  SetOf,
  TableOf,
  VersionColumn,
} from './table-options.ts'
import {
  checkedSet,
  conflictUnlessAt,
  foundVersion,
  isAt,
  versionColumnOf,
  versionText,
} from './version-option.ts'
import { asKindOf, exactVersion, nextVersion, type SameKind, type Version } from '../version.ts'

/**
 * Updates one row if the row is at the expected version, and increments the version by one. Of several writers that
 * expect the same version, exactly one succeeds, because the check is part of the UPDATE. Sends one statement, and a
 * second one only if nothing was updated; with a root, opens a transaction around them. `set` may be empty.
 *
 * @returns the new version, with the type of `expected`.
 * @throws {InvalidMessageError} when the column cannot hold the new version; nothing was written.
 * @throws {RowNotFoundError} when there is no such row.
 * @throws {VersionConflictError} when the row is at another version. Nothing was written, and the transaction is still
 *   usable.
 * @throws {TransactionConflictError} when the database asks for the transaction to be run again.
 * @throws {InvalidOptionError} when `where` is empty or matches several rows; when `set` names the version column; when
 *   a number would be rounded; when `expected` is the greatest whole number of 64 bits.
 */
export async function updateVersioned<
  DB,
  TB extends TableOf<DB>,
  V extends Version,
  VC extends VersionColumn<DB, TB> = DefaultVersion<DB, TB>,
>(
  tx: AnyKysely<DB>,
  table: TB,
  options: {
    /** Columns of a unique key, with their values. */
    where: RowKey<DB, TB>
    /** The version that the row must be at. */
    expected: V
    /** New values or Kysely expressions. */
    set: SetOf<DB, TB, NoInfer<VC>>
  } & Named<DB, TB, VC>,
): Promise<{ version: SameKind<V> }> {
  const where = 'updateVersioned'
  new OptionChecker(where, options).known('where', 'expected', 'set', 'versionColumn')
  const column = versionColumnOf(where, options)
  const expected = exactVersion(where, 'expected', options.expected)
  const next = nextVersion(where, expected)
  const version = asKindOf(where, options.expected, next)
  const set = checkedSet(where, options.set, column)
  return onKeyedRow(new KeyedRow(where, tx, table, options.where), async (row) => {
    await assertFits(row, column, next)
    let found: string | null | undefined
    return row.settle({
      async write() {
        const change = { ...set, [column]: row.dialect.version(next) }
        const update = await row.updateVersion(change, column, isAt(row, column, expected))
        found = update.found
        return update.written
      },
      // A trigger may have changed the version.
      written: () => ({
        version:
          found === undefined ? version : asKindOf(where, options.expected, foundVersion(row, column, found)),
      }),
      look: () => versionText(row, column),
      explain: (found) => conflictUnlessAt(row, where, options.expected, foundVersion(row, column, found)),
    })
  })
}
