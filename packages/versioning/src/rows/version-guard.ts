import {
  InvalidMessageError,
  InvalidOptionError,
  NotInTransactionError,
  type InboxMessage,
} from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import { sql, type Transaction } from 'kysely'
import type { Upsert } from './dialect.ts'
import { assertFits } from './column-range.ts'
import { KeyedRow } from './keyed-row.ts'
import type { Named, NewRow, RowKey, TableOf, VersionColumn } from './table-options.ts'
import { timeStatements } from './time-statements.ts'
import { translatingWrongColumns } from './wrong-column.ts'
import { checkedInsert } from './upsert.ts'
import { guardOptions, rowText, type GuardOptions } from '../rules/guard-options.ts'
import { foundVersion, versionText } from './version-option.ts'
import { exactVersion, type Version } from '../version.ts'

/** The types of `where`, `insert` and `versionColumn` follow from `table`. */
export type VersionGuardOptions<DB, P = unknown> = {
  [TB in TableOf<DB>]: {
    table: TB
    /** Columns of a unique key, with their values. */
    where: (message: InboxMessage<P>) => RowKey<DB, TB>
    /** The version to which the message brings the row: the version of the state that the message contains. */
    version: (message: InboxMessage<P>) => Version
    /**
     * The row to insert, in the same statement, if there is no such row. `where` must be a unique key of the table. txbox
     * sets the columns of the key and of the version. @default a missing row is a RowNotFoundError
     */
    insert?: ((message: InboxMessage<P>) => NewRow<DB, TB>) | undefined
  } & Named<DB, TB, VersionColumn<DB, TB>>
}[TableOf<DB>]

/** A guard, with the row that it locks for a message: a consumer calls it for the messages of a batch in the order of the rows. */
export interface VersionGuard<DB, P = unknown> {
  (tx: Transaction<DB>, message: InboxMessage<P>): Promise<'apply' | 'stale'>
  /** A text of the columns and values of `where`; empty for a message that names no row. */
  readonly rowOf: (message: InboxMessage<P>) => string
}

/**
 * Makes a guard for `createConsumer`: messages that contain the state of a row, each with the version of that state,
 * are handled only if they are newer than the row (last writer wins, by version). Versions may be skipped. If no change
 * may be left out, use `applyVersion` instead.
 *
 * The guard itself sets the row's version, before the handler runs in the same transaction. A guard that only compared
 * could let an older message overwrite a newer one: of two consumers that read the same row, both would see an old
 * version, and so would the guards of two messages of one batch, which all run before the handler. Because the UPDATE
 * compares and locks the row at once, another message of the row waits until this transaction ends: it is `'stale'`
 * after a commit, and is compared with the old version after a rollback, which restores the old version. The handler
 * must therefore not write the version column, and must not pass the same change to `applyVersion` or
 * `updateVersioned`.
 *
 * The guard sends one statement, and a second one only if nothing was updated. It throws, so that the consumer rolls
 * back and decides about another delivery:
 *
 * - `RowNotFoundError` if there is no such row, and no `insert`;
 * - `InvalidMessageError`, which makes a dead letter, if `where`, `version` or `insert` returns a value that is not
 *   valid;
 * - `InvalidOptionError` if the table has no such version column, the column has no integer type or contains null, or
 *   `where` matches several rows;
 * - `TransactionConflictError` when the database asks for the transaction to be run again, which the consumer does;
 * - `NotInTransactionError` or `UnsupportedTransactionError` if `tx` is not a Kysely transaction.
 *
 * @returns a guard that returns `'apply'`, or `'stale'` if the row is already at this version or a later one.
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function versionGuard<DB, P = unknown>(options: VersionGuardOptions<DB, P>): VersionGuard<DB, P> {
  const checked = guardOptions(options)
  return Object.assign((tx: Transaction<DB>, message: InboxMessage<P>) => guard(checked, tx, message), {
    rowOf: (message: InboxMessage<P>) => rowText(checked, message),
  })
}

async function guard(options: GuardOptions, tx: object, message: unknown): Promise<'apply' | 'stale'> {
  const { column } = options
  const { row, version, insert } = rowOf(options, tx, message)
  if (!row.db.isTransaction) {
    throw new NotInTransactionError(
      `${row.doing}: the guard must run in a transaction, not on a root. Nothing was written. Pass the handler's transaction.`,
    )
  }
  await assertFits(row, column, version)
  const at = sql`${row.dialect.version(version)}`
  const newer = row.dialect.isBelow(sql.ref(`${row.table}.${column}`), version)
  const upsert: Upsert | undefined = insert && {
    ...{ row, column, at, newer, insert, set: {} },
    insertable: timeStatements.always(),
  }
  return translatingWrongColumns(row, column, () =>
    row.settle<'apply' | 'stale'>({
      write: () => (upsert === undefined ? row.update({ [column]: at }, newer) : row.dialect.upsert(upsert)),
      written: 'apply',
      look: () => versionText(row, column),
      explain: (found) => (foundVersion(row, column, found) >= version ? 'stale' : undefined),
      missing: upsert && (async () => undefined),
    }),
  )
}

/** @throws {InvalidMessageError} when the message names no row, or no version. */
function rowOf(
  { table, column, ...of }: GuardOptions,
  tx: object,
  message: unknown,
): { row: KeyedRow; version: bigint; insert: Readonly<Record<string, unknown>> | undefined } {
  const where = of.where(message)
  const version = of.version(message)
  const inserted = of.insert?.(message)
  try {
    const row = new KeyedRow('versionGuard', tx, table, where)
    if (inserted !== undefined && (typeof inserted !== 'object' || inserted === null)) {
      throw new InvalidOptionError(`${row.doing}: 'insert' must return an object of columns and values.`)
    }
    const insert = inserted && checkedInsert(row, inserted)
    return { row, insert, version: exactVersion(row.doing, oneLine(column), version) }
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error
    throw new InvalidMessageError(`${error.message} Nothing was written.`, { cause: error })
  }
}
