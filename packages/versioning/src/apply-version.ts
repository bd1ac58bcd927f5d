import { InvalidOptionError, OptionChecker } from '@txbox/core'
import { VersionDivergedError, VersionGapError } from './errors.ts'
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
import { asKindOf, exactVersion, type SameKind, type Version } from './version.ts'

/**
 * Applies a change that leads from one version of a row to a later one: in order, and once. `to` may be more than one
 * above `from`. One statement; a second one only when nothing was updated.
 *
 * @returns `'applied'`, with the version that the row is at now; or `'stale'` when the row is at `to` or past it, with
 *   its version: the change is in it already. Both are a success.
 * @throws {VersionGapError} when the row is before `from`: a change is missing. Retryable: it may come.
 * @throws {VersionDivergedError} when the row is between the two: somebody else has changed it.
 * @throws {RowNotFoundError} when there is no such row.
 * @throws {TransactionConflictError} when the database asks for the transaction to be run again.
 * @throws {InvalidOptionError} when `to` is not above `from`; for an empty `where`, or one that matches several rows; a
 *   `set` with the version column; or a number that would be rounded. After any error but TransactionConflictError the
 *   transaction goes on.
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
    /** The version that the change was made on. */
    from: V
    /** The version that it leads to. */
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
  return onKeyedRow(new KeyedRow(where, tx, table, options.where), (row) =>
    row.settle<{ status: 'applied' | 'stale'; version: SameKind<V> }>({
      write: () => row.update({ ...set, [column]: row.dialect.version(to) }, isAt(row, column, from)),
      written: { status: 'applied', version: asKindOf(where, options.from, to) },
      look: () => versionText(row, column),
      explain(found) {
        const actual = foundVersion(row, column, found)
        if (actual >= to) return { status: 'stale', version: asKindOf(where, options.from, actual) }
        assertStepFits(row.doing, options, actual)
        return undefined
      },
    }),
  )
}

/** @throws {InvalidOptionError} when the two are no versions of one kind, or `to` is not above `from`. */
export function checkedStep(
  where: string,
  { from, to }: { from: Version; to: Version },
): readonly [from: bigint, to: bigint] {
  const exact = [exactVersion(where, 'from', from), exactVersion(where, 'to', to)] as const
  if (exact[1] <= exact[0] || typeof from !== typeof to) {
    throw new InvalidOptionError(
      `${where}: 'to' must be of the kind of 'from' and greater; 'from' is ${from}, 'to' is ${to}.`,
    )
  }
  return exact
}

/**
 * What is at `actual`, below `to`, must be at `from` exactly.
 *
 * @throws {VersionGapError} when it is before that.
 * @throws {VersionDivergedError} when it is past that.
 */
export function assertStepFits(
  doing: string,
  { from, to }: { from: Version; to: Version },
  actual: bigint,
): void {
  const at = asKindOf(doing, from, actual)
  if (actual < BigInt(from)) {
    throw new VersionGapError(
      `${doing} is at version ${actual}; the change leads from ${from} to ${to}, so those between are missing. Nothing was ` +
        'written. Try again when they have come.',
      { from, actual: at },
    )
  }
  if (actual > BigInt(from)) {
    throw new VersionDivergedError(
      `${doing} is at version ${actual}, inside the change from ${from} to ${to}: it has had changes that the sender does not ` +
        'know. Nothing was written. Find the second writer, and set the row to a state and version of the sender.',
      { from, to, actual: at },
    )
  }
}
