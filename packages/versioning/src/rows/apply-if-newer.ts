import { LIMITS } from '@txbox/core'
import { OptionChecker } from '@txbox/core/internal'
import { sql, type RawBuilder, type SqlBool } from 'kysely'
import { textResult, type Upsert } from './dialect.ts'
import { instantOf, type Instant } from '../rules/instant.ts'
import { timeAhead, timeRounded } from '../rules/refused-times.ts'
import { KeyedRow } from './keyed-row.ts'
import { onKeyedRow } from './on-keyed-row.ts'
import type { AnyKysely, NewRow, RowKey, SetOf, TableOf, TimeColumn } from './table-options.ts'
import { timeStatements } from './time-statements.ts'
import { checkedInsert } from './upsert.ts'
import { checkedSet } from './version-option.ts'

type Outcome = { status: 'applied' | 'stale' }

/** What the diagnostic statement reports about a row. */
type Comparison = 'newer' | 'stale' | 'ahead' | 'rounds'

/**
 * Applies a change if the change is newer than the last change of the row (last writer wins, by time). Sends one
 * statement, and a second one only if nothing was written.
 *
 * Times are compared to the microsecond. On PostgreSQL the column must be a `timestamptz`; on MySQL and MariaDB a
 * `DATETIME(6)` that holds UTC. A column that would round the time is refused, because an older change could then
 * overwrite a newer one. A null column is older than any time.
 *
 * @returns `'applied'`, or `'stale'` if the row's time is the same or later. Both are successful outcomes.
 * @throws {RowNotFoundError} when there is no such row and no `insert`.
 * @throws {InvalidMessageError} when `at` is ahead of the database's clock by more than `maxAheadMs`. Nothing was
 *   written.
 * @throws {TransactionConflictError} when the database asks for the transaction to be run again.
 * @throws {InvalidOptionError} when `at` is not an instant, or the column would round it; when `where` is empty or
 *   matches several rows; when `set` names the column of the time; when `insert` has another key than `where`, or when
 *   the columns of `where` contain no unique key. After any error except TransactionConflictError, the transaction is
 *   still usable.
 */
export async function applyIfNewer<DB, TB extends TableOf<DB>, C extends TimeColumn<DB, TB>>(
  tx: AnyKysely<DB>,
  table: TB,
  options: {
    /** Columns of a unique key, with their values. */
    where: RowKey<DB, TB>
    /** The column of the time. */
    column: C
    /** The time of the change: a `Date`, or an RFC 3339 string, which keeps microseconds. */
    at: Date | string
    /**
     * New values or Kysely expressions. With `insert`, expressions must qualify columns by their table:
     * `sql.ref('orders.total')`.
     */
    set: SetOf<DB, TB, NoInfer<C>>
    /**
     * The row to insert, in the same statement, if there is no such row. `where` must be a unique key of the table.
     * txbox sets the columns of the key and of the time.
     */
    insert?: NewRow<DB, TB> | undefined
    /** How far `at` may be ahead of the database's clock, in milliseconds: 0 to 100 years. @default no limit */
    maxAheadMs?: number | undefined
  },
): Promise<Outcome> {
  const where = 'applyIfNewer'
  const check = new OptionChecker(where, options)
  check.known('where', 'column', 'at', 'set', 'insert', 'maxAheadMs')
  const column = check.text('column', { max: 255 })
  const at = instantOf(where, 'at', options.at)
  const set = checkedSet(where, options.set, column)
  const maxAheadMs =
    options.maxAheadMs === undefined
      ? undefined
      : check.milliseconds('maxAheadMs', { min: 0, max: LIMITS.durationMs, default: 0 })
  return onKeyedRow(new KeyedRow(where, tx, table, options.where), async (row) => {
    const conditions = conditionsOf(row, column, at, maxAheadMs)
    const value = row.dialect.instant(at)
    if (options.insert === undefined) {
      return settle(row, conditions, at, () =>
        row.update({ ...set, [column]: value }, timeStatements.both(conditions.timely, conditions.newer)),
      )
    }
    const insert = checkedInsert(row, options.insert)
    const upsert: Upsert = { row, column, at: value, set, insert, ...conditions }
    return settle(
      row,
      conditions,
      at,
      () => row.dialect.upsert(upsert),
      () => notInserted(row, conditions, at),
    )
  })
}

interface Conditions {
  /** True if the time is not ahead of the clock. */
  readonly timely: RawBuilder<SqlBool>
  /** True if the time is not ahead of the clock, and the column of a new row would not round it. */
  readonly insertable: RawBuilder<SqlBool>
  /** True if the row's time is earlier, or null. */
  readonly newer: RawBuilder<SqlBool>
  readonly verdict: RawBuilder<string>
}

function conditionsOf(
  row: KeyedRow,
  column: string,
  at: Instant,
  maxAheadMs: number | undefined,
): Conditions {
  const { dialect } = row
  const time = sql.ref(`${row.table}.${column}`)
  const value = dialect.instant(at)
  const timely =
    maxAheadMs === undefined
      ? timeStatements.always()
      : timeStatements.isAtMost(value, dialect.clockPlus(maxAheadMs))
  const rounds = dialect.rounds(row.table, column, at)
  return {
    timely,
    insertable: timeStatements.insertable(timely, dialect.roundsInsert(row.table, column, at)),
    newer: timeStatements.newer(time, value, rounds),
    verdict: timeStatements.verdict(timely, rounds, time, value),
  }
}

function settle(
  row: KeyedRow,
  { verdict }: Conditions,
  at: Instant,
  write: () => Promise<boolean>,
  missing?: () => Promise<undefined>,
): Promise<Outcome> {
  return row.settle<Outcome>({
    write,
    missing,
    written: { status: 'applied' },
    look: () => verdict,
    explain(found): Outcome | undefined {
      const verdict = found as Comparison
      if (verdict === 'ahead') throw timeAhead(row, at)
      if (verdict === 'rounds') throw timeRounded(row, at)
      return verdict === 'stale' ? { status: 'stale' } : undefined
    },
  })
}

/**
 * Finds out why no row was inserted. Either the time is ahead of the clock or would be rounded, or the row existed and
 * was deleted in the meantime; then the caller writes again.
 */
async function notInserted(
  row: KeyedRow,
  { timely, insertable }: Conditions,
  at: Instant,
): Promise<undefined> {
  const reason = timeStatements.reason(timely, insertable)
  // Kysely plugins that add a schema to table names need the FROM. The aggregate returns one row for any table.
  const query = row.db
    .selectFrom(row.table)
    .select([row.dialect.textOf(reason).as('reason'), timeStatements.count().as('rows')])
    .where(timeStatements.never())
  const found = await row.translated(() => query.executeTakeFirstOrThrow())
  const verdict = textResult(found.reason)
  if (verdict === 'ahead') throw timeAhead(row, at)
  if (verdict === 'rounds') throw timeRounded(row, at)
}
