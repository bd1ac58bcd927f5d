import { InvalidMessageError, InvalidOptionError, LIMITS, OptionChecker } from '@txbox/core'
import { sql, type RawBuilder, type SqlBool } from 'kysely'
import { cameBackAs } from './dialect.ts'
import { instantOf, type Instant } from './instant.ts'
import { KeyedRow } from './keyed-row.ts'
import { onKeyedRow } from './on-keyed-row.ts'
import type { AnyKysely, NewRow, RowKey, SetOf, TableOf, TimeColumn } from './table-options.ts'
import { upsertIfNewer, type Upsert } from './upsert-if-newer.ts'
import { checkedSet } from './version-option.ts'

type Outcome = { status: 'applied' | 'stale' }

/** What a look at a row says, in the words of its statement. */
type Verdict = 'newer' | 'stale' | 'ahead' | 'rounds'

/**
 * Last writer wins, by time: applies a change if it is newer than the row's last one. One statement; a second one only
 * when nothing was written.
 *
 * Times compare to the microsecond. On PostgreSQL the column is a `timestamptz`. On MySQL and MariaDB it is a
 * `DATETIME(6)` and holds UTC. A column that would round the time is refused, since an older change could then overwrite a
 * newer change. A column that is null is older than any time.
 *
 * @returns `'applied'`; or `'stale'` when the row's time is the same or later. Both are a success.
 * @throws {RowNotFoundError} when there is no such row, and no `insert`.
 * @throws {InvalidMessageError} when `at` is ahead of the database's clock by more than `maxAheadMs`. Nothing was
 *   written.
 * @throws {TransactionConflictError} when the database asks for the transaction to be run again.
 * @throws {InvalidOptionError} when `at` is no instant, or the column would round it; for an empty `where`, or one that
 *   matches several rows; a `set` with the column of the time; an `insert` of another key, or with a `where` that no
 *   unique key stands behind. After any error but TransactionConflictError the
 *   transaction goes on.
 */
export async function applyIfNewer<DB, TB extends TableOf<DB>, C extends TimeColumn<DB, TB>>(
  tx: AnyKysely<DB>,
  table: TB,
  options: {
    /** Columns of a unique key, with their values. */
    where: RowKey<DB, TB>
    /** The column of the time. */
    column: C
    /** When the change was made: a `Date`, or text by RFC 3339, which keeps microseconds. */
    at: Date | string
    /**
     * New values, or Kysely expressions. With `insert`, let expressions name their table: `sql.ref('orders.total')`.
     */
    set: SetOf<DB, TB, NoInfer<C>>
    /**
     * The row to insert if there is none, by the same statement. `where` must be a unique key of the table. Its key and
     * time are written by txbox.
     */
    insert?: NewRow<DB, TB> | undefined
    /** How far `at` may be ahead of the database's clock; 0 to 100 years. Off by default. */
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
        row.update({ ...set, [column]: value }, sql<SqlBool>`${conditions.timely} and ${conditions.newer}`),
      )
    }
    const insert = checkedInsert(row, options.insert)
    const upsert: Upsert = { row, column, at: value, set, insert, ...conditions }
    return settle(
      row,
      conditions,
      at,
      () => upsertIfNewer(upsert),
      () => notInserted(row, conditions, at),
    )
  })
}

interface Conditions {
  /** Not ahead of the clock. */
  readonly timely: RawBuilder<SqlBool>
  /** … and the column of a new row would not round the time. */
  readonly insertable: RawBuilder<SqlBool>
  /** The row's time is earlier, or it has none. */
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
      ? sql<SqlBool>`1 = 1`
      : sql<SqlBool>`${value} <= ${dialect.clockPlus(maxAheadMs)}`
  const rounds = dialect.rounds(row.table, column, at)
  return {
    timely,
    insertable: sql<SqlBool>`${timely} and not ${dialect.roundsInsert(row.table, column, at)}`,
    newer: sql<SqlBool>`((${time} is null or ${time} < ${value}) and not ${rounds})`,
    verdict: sql<string>`case when not ${timely} then 'ahead' when ${rounds} then 'rounds'
      when ${time} is null or ${time} < ${value} then 'newer' else 'stale' end`,
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
      const verdict = found as Verdict
      if (verdict === 'ahead') throw ahead(row, at)
      if (verdict === 'rounds') throw rounds(row, at)
      return verdict === 'stale' ? { status: 'stale' } : undefined
    },
  })
}

function rounds(row: KeyedRow, at: Instant): InvalidOptionError {
  return new InvalidOptionError(
    `${row.doing}: the column of the time would round ${at.iso}, and an older change could overwrite a newer one. Nothing ` +
      'was written. Make it a timestamptz without a precision; on MySQL and MariaDB a DATETIME(6).',
  )
}

/**
 * A time ahead of the clock, or a time that would be rounded, keeps a row from being inserted. If neither was the case,
 * the row was deleted meanwhile.
 */
async function notInserted(
  row: KeyedRow,
  { timely, insertable }: Conditions,
  at: Instant,
): Promise<undefined> {
  const reason = sql`case when not ${timely} then 'ahead' when not (${insertable}) then 'rounds' else 'none' end`
  // A plugin that adds a schema looks for the tables of the FROM; an aggregate gives a row whatever is in them.
  const query = row.db
    .selectFrom(row.table)
    .select([row.dialect.textOf(reason).as('reason'), sql`count(*)`.as('rows')])
    .where(sql<SqlBool>`1 = 0`)
  const found = await row.translated(() => query.executeTakeFirstOrThrow())
  const verdict = cameBackAs(found.reason)
  if (verdict === 'ahead') throw ahead(row, at)
  if (verdict === 'rounds') throw rounds(row, at)
}

function ahead(row: KeyedRow, at: Instant): InvalidMessageError {
  return new InvalidMessageError(
    `${row.doing}: the change is of ${at.iso}, which is ahead of the database's clock by more than 'maxAheadMs'. Nothing was ` +
      "written. Correct the sender's clock.",
  )
}

/** The row and its key must be the same: otherwise the one that is inserted is never found again. */
function checkedInsert(row: KeyedRow, insert: object): Readonly<Record<string, unknown>> {
  for (const [column, value] of Object.entries(row.key)) {
    const given: unknown = Reflect.get(insert, column)
    // Of an expression nobody can tell.
    if (given === undefined || typeof given !== typeof value || typeof given === 'object' || given === value)
      continue
    throw new InvalidOptionError(
      `${row.doing}: 'insert' has another value for '${column}' than 'where'. Nothing was written.`,
    )
  }
  return insert as Readonly<Record<string, unknown>>
}
