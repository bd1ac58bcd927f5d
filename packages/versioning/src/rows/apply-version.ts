import { OptionChecker } from '@txbox/core/internal'
import { assertStepFits, checkedStep } from '../rules/version-step.ts'
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
import { checkedSet, foundVersion, isAt, versionColumnOf, versionText } from './version-option.ts'
import { asKindOf, type SameKind, type Version } from '../version.ts'

/**
 * Applies a change that leads from one version of a row to a later version. Changes are applied in order, and each only
 * once. `to` may exceed `from` by more than one. Sends one statement, and a second one only if nothing was updated.
 *
 * @returns `'applied'` with the new version of the row; or `'stale'` with the version of the row, if the row is at `to`
 *   or later, so that it contains the change already. Both are successful outcomes.
 * @throws {VersionGapError} when the row is before `from`, so that a change is missing. Retryable: the missing change
 *   may arrive.
 * @throws {VersionDivergedError} when the row is between `from` and `to`, because another writer changed it.
 * @throws {RowNotFoundError} when there is no such row.
 * @throws {InvalidMessageError} when the column cannot hold a version; nothing was written.
 * @throws {TransactionConflictError} when the database asks for the transaction to be run again.
 * @throws {InvalidOptionError} when `to` is not greater than `from`; when `where` is empty or matches several rows;
 *   when `set` names the version column; when a number would be rounded. After any error except
 *   TransactionConflictError, the transaction is still usable.
 */
export async function applyVersion<
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
    /** The version that the change is based on. */
    from: V
    /** The version that the change leads to. */
    to: NoInfer<SameKind<V>>
    /** New values, or Kysely expressions. */
    set: SetOf<DB, TB, NoInfer<VC>>
  } & Named<DB, TB, VC>,
): Promise<{ status: 'applied' | 'stale'; version: SameKind<V> }> {
  const where = 'applyVersion'
  new OptionChecker(where, options).known('where', 'from', 'to', 'set', 'versionColumn')
  const column = versionColumnOf(where, options)
  const [from, to] = checkedStep(where, options)
  const set = checkedSet(where, options.set, column)
  return onKeyedRow(new KeyedRow(where, tx, table, options.where), async (row) => {
    await assertFits(row, column, from, to)
    let found: string | null | undefined
    return row.settle<{ status: 'applied' | 'stale'; version: SameKind<V> }>({
      async write() {
        const change = { ...set, [column]: row.dialect.version(to) }
        const update = await row.updateVersion(change, column, isAt(row, column, from))
        found = update.found
        return update.written
      },
      // A trigger may have changed the version.
      written: () => ({
        status: 'applied',
        version: asKindOf(where, options.from, found === undefined ? to : foundVersion(row, column, found)),
      }),
      look: () => versionText(row, column),
      explain(found) {
        const actual = foundVersion(row, column, found)
        if (actual >= to) return { status: 'stale', version: asKindOf(where, options.from, actual) }
        assertStepFits(row.doing, options, actual)
        return undefined
      },
    })
  })
}
