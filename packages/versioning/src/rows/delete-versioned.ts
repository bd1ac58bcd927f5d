import { OptionChecker } from '@txbox/core/internal'
import { assertFits } from './column-range.ts'
import { KeyedRow } from './keyed-row.ts'
import { onKeyedRow } from './on-keyed-row.ts'
import type { AnyKysely, DefaultVersion, Named, RowKey, TableOf, VersionColumn } from './table-options.ts'
import { conflictUnlessAt, foundVersion, isAt, versionColumnOf, versionText } from './version-option.ts'
import { exactVersion, type Version } from '../version.ts'

/**
 * Deletes one row if the row is at the expected version.
 *
 * @throws {RowNotFoundError} when there is no such row.
 * @throws {VersionConflictError} when the row is at another version. Nothing was deleted, and the transaction is still
 *   usable.
 * @throws {TransactionConflictError} when the database asks for the transaction to be run again.
 * @throws {InvalidOptionError} when `where` is empty or matches several rows.
 */
export async function deleteVersioned<
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
  } & Named<DB, TB, VC>,
): Promise<void> {
  const where = 'deleteVersioned'
  new OptionChecker(where, options).known('where', 'expected', 'versionColumn')
  const column = versionColumnOf(where, options)
  const expected = exactVersion(where, 'expected', options.expected)
  await onKeyedRow(new KeyedRow(where, tx, table, options.where), async (row) => {
    await assertFits(row, column, expected)
    return row.settle({
      write: () => row.delete(isAt(row, column, expected)),
      written: true,
      look: () => versionText(row, column),
      explain: (found) => conflictUnlessAt(row, where, options.expected, foundVersion(row, column, found)),
    })
  })
}
