import type { InTransaction, InboxMessage } from '@txbox/core'
import type { StateMachine } from '../rules/state-machine.ts'
import type { SameKind, Version } from '../version.ts'
import type {
  DefaultVersion,
  Named,
  NewRow,
  RowKey,
  SetOf,
  StateColumn,
  StateOf,
  TableOf,
  TimeColumn,
  VersionColumn,
} from './table-options.ts'

/** The types of `where`, `insert` and `versionColumn` follow from `table`. */
export type TableGuardOptions<Tables, P = unknown> = {
  [TB in TableOf<Tables>]: {
    table: TB
    /** Columns of a unique key, with their values. */
    where: (message: InboxMessage<P>) => RowKey<Tables, TB>
    /** The version to which the message brings the row: the version of the state that the message contains. */
    version: (message: InboxMessage<P>) => Version
    /**
     * The row to insert, in the same statement, if there is no such row. `where` must be a unique key of the table. txbox
     * sets the columns of the key and of the version. @default a missing row is a RowNotFoundError
     */
    insert?: ((message: InboxMessage<P>) => NewRow<Tables, TB>) | undefined
  } & Named<Tables, TB, VersionColumn<Tables, TB>>
}[TableOf<Tables>]

/** A guard, with the row that it locks for a message: a consumer calls it for the messages of a batch in the order of the rows. */
export interface TableGuard<P = unknown> {
  (tx: object, message: InboxMessage<P>): Promise<'apply' | 'stale'>
  /** A text of the columns and values of `where`; empty for a message that names no row. */
  readonly rowOf: (message: InboxMessage<P>) => string
}

/**
 * Changes rows of your own tables in order and once, through the transactions of every library that `createInbox` takes.
 * `Tables` has the names and the types of the columns, as the database has them.
 *
 * `set`, `where` and `insert` have values: texts, numbers, bigints, booleans, Dates (written as UTC), bytes, null, and for `set`
 * and `insert` also plain objects and arrays, which are written as JSON. They take no expressions of SQL.
 *
 * All methods throw:
 *
 * - `UnsupportedTransactionError | NotInTransactionError` when `tx` is not an open transaction of the database; nothing was
 *   written;
 * - `TransactionConflictError` when the database asks for the transaction to be run again;
 * - `DatabaseUnavailableError | TransactionAbortedError` when the connection broke, or the transaction can only roll back;
 * - `InvalidOptionError` when `where` is empty or matches several rows, when `set` names the column that txbox writes itself or
 *   a column of `where`, for a value that no column can have, and for a table or column that the database does not have.
 */
export interface Versioning<Tables> {
  /**
   * Updates one row if the row is at the expected version, and increments the version by one. Of several writers that
   * expect the same version, exactly one succeeds, because the check is part of the UPDATE. Sends one statement, and a
   * second one only if nothing was updated. `set` may be empty.
   *
   * @returns the new version, with the type of `expected`. If a trigger changes the version, that of the trigger on
   *   PostgreSQL; on MySQL and MariaDB, the version is not read again.
   * @throws {RowNotFoundError} when there is no such row.
   * @throws {VersionConflictError} when the row is at another version. Nothing was written, and the transaction is still
   *   usable.
   * @throws {InvalidMessageError} when the column cannot hold the new version; nothing was written.
   */
  readonly updateVersioned: <
    H extends object,
    TB extends TableOf<Tables>,
    V extends Version,
    VC extends VersionColumn<Tables, TB> = DefaultVersion<Tables, TB>,
  >(
    tx: H & InTransaction<H>,
    table: TB,
    options: {
      /** Columns of a unique key, with their values. */
      where: RowKey<Tables, TB>
      /** The version that the row must be at. */
      expected: V
      set: SetOf<Tables, TB, NoInfer<VC>>
    } & Named<Tables, TB, VC>,
  ) => Promise<{ version: SameKind<V> }>

  /**
   * Deletes one row if the row is at the expected version.
   *
   * @throws {RowNotFoundError} when there is no such row.
   * @throws {VersionConflictError} when the row is at another version. Nothing was deleted, and the transaction is still
   *   usable.
   */
  readonly deleteVersioned: <
    H extends object,
    TB extends TableOf<Tables>,
    V extends Version,
    VC extends VersionColumn<Tables, TB> = DefaultVersion<Tables, TB>,
  >(
    tx: H & InTransaction<H>,
    table: TB,
    options: {
      /** Columns of a unique key, with their values. */
      where: RowKey<Tables, TB>
      /** The version that the row must be at. */
      expected: V
    } & Named<Tables, TB, VC>,
  ) => Promise<void>

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
   */
  readonly applyVersion: <
    H extends object,
    TB extends TableOf<Tables>,
    V extends Version,
    VC extends VersionColumn<Tables, TB> = DefaultVersion<Tables, TB>,
  >(
    tx: H & InTransaction<H>,
    table: TB,
    options: {
      /** Columns of a unique key, with their values. */
      where: RowKey<Tables, TB>
      /** The version that the change is based on. */
      from: V
      /** The version that the change leads to. */
      to: NoInfer<SameKind<V>>
      set: SetOf<Tables, TB, NoInfer<VC>>
    } & Named<Tables, TB, VC>,
  ) => Promise<{ status: 'applied' | 'stale'; version: SameKind<V> }>

  /**
   * Applies a change if the change is newer than the last change of the row (last writer wins, by time). Sends one
   * statement, and a second one only if nothing was written. (On MySQL and MariaDB, `insert` needs one more through Prisma and
   * `sqlTransaction`.)
   *
   * Times are compared to the microsecond. On PostgreSQL the column must be a `timestamptz`; on MySQL and MariaDB a
   * `DATETIME(6)` that holds UTC. A column that would round the time is refused, because an older change could then
   * overwrite a newer one. A null column is older than any time.
   *
   * @returns `'applied'`, or `'stale'` if the row's time is the same or later. Both are successful outcomes.
   * @throws {RowNotFoundError} when there is no such row and no `insert`.
   * @throws {InvalidMessageError} when `at` is ahead of the database's clock by more than `maxAheadMs`. Nothing was
   *   written.
   * @throws {InvalidOptionError} when `at` is not an instant, or the column would round it; when `insert` has another key
   *   than `where`, or when the columns of `where` contain no unique key.
   */
  readonly applyIfNewer: <H extends object, TB extends TableOf<Tables>, C extends TimeColumn<Tables, TB>>(
    tx: H & InTransaction<H>,
    table: TB,
    options: {
      /** Columns of a unique key, with their values. */
      where: RowKey<Tables, TB>
      /** The column of the time. */
      column: C
      /** The time of the change: a `Date`, or an RFC 3339 string, which keeps microseconds. */
      at: Date | string
      set: SetOf<Tables, TB, NoInfer<C>>
      /**
       * The row to insert, in the same statement, if there is no such row. `where` must be a unique key of the table.
       * txbox sets the columns of the key and of the time.
       */
      insert?: NewRow<Tables, TB> | undefined
      /** How far `at` may be ahead of the database's clock, in milliseconds: 0 to 100 years. @default no limit */
      maxAheadMs?: number | undefined
    },
  ) => Promise<{ status: 'applied' | 'stale' }>

  /**
   * Moves one row to another state, if the state machine allows the move. Sends one statement, and a second one only if
   * nothing was updated.
   *
   * @returns `'applied'` if one move led from the row's state to `to`; `'already'` if the row is at `to`, or has passed
   *   `to` and cannot return to it. Both are successful outcomes.
   * @throws {TransitionTooEarlyError} when the row can still reach `to` after other moves. Retryable.
   * @throws {TransitionRefusedError} when the row can never reach `to`.
   * @throws {RowNotFoundError} when there is no such row.
   * @throws {InvalidOptionError} when `to` is not a state of the machine.
   */
  readonly transition: <H extends object, TB extends TableOf<Tables>, C extends StateColumn<Tables, TB>>(
    tx: H & InTransaction<H>,
    table: TB,
    options: {
      /** Columns of a unique key, with their values. */
      where: RowKey<Tables, TB>
      /** The column of the state. */
      column: C
      to: NoInfer<StateOf<Tables, TB, C>>
      machine: StateMachine<StateOf<Tables, TB, C>>
      /** Further values to write. */
      set?: SetOf<Tables, TB, NoInfer<C>> | undefined
    },
  ) => Promise<{ status: 'applied' | 'already' }>

  /**
   * Reads one row, passes it to `merge`, and writes the result if the row is still at the version that was read.
   *
   * - With the root that was passed to `postgres()` or `mysql()` as `db`, each attempt is a new transaction, and no lock is held
   *   while `merge` runs. If another writer changed the row meanwhile, the next attempt reads the row again and calls `merge`
   *   again.
   * - In a transaction, the row is read `FOR UPDATE`, so that there is one attempt and no conflict.
   *
   * `merge` gets the same through every library: whole numbers as number, and beyond 2^53 as bigint; decimals as text;
   * floating-point numbers as number; truth values of PostgreSQL as boolean; JSON parsed; instants as Date; bytes as Uint8Array;
   * everything else as text.
   *
   * @returns the new version, as `merge` would get it, and the number of attempts.
   * @throws {EditConflictError} when another writer changed the row during each attempt. Retryable.
   * @throws {RowNotFoundError} when there is no such row.
   * @throws {InvalidMessageError} when the column cannot hold the new version; nothing was written.
   * @throws {InvalidOptionError} when the result of `merge` is no object, or names the version column or a column of `where`.
   *   An error that `merge` throws is rethrown unchanged.
   */
  readonly updateMerged: <
    TB extends TableOf<Tables>,
    VC extends VersionColumn<Tables, TB> = DefaultVersion<Tables, TB>,
  >(
    db: object,
    table: TB,
    options: {
      /** Columns of a unique key, with their values. */
      where: RowKey<Tables, TB>
      /**
       * Returns the values to write. Must have no other effects: it may be called several times. (A method, so that its
       * parameter may have a type of its own.)
       */
      merge(row: Tables[TB]): SetOf<Tables, TB, NoInfer<VC>> | Promise<SetOf<Tables, TB, NoInfer<VC>>>
      /** The maximum number of attempts with a root, 1 to 100. @default 3 */
      attempts?: number | undefined
    } & Named<Tables, TB, VC>,
  ) => Promise<{ version: Tables[TB][VC]; attempts: number }>

  /**
   * Makes a guard for `createConsumer`: messages that contain the state of a row, each with the version of that state,
   * are handled only if they are newer than the row (last writer wins, by version). Versions may be skipped. If no change
   * may be left out, use `applyVersion` instead.
   *
   * The guard itself sets the row's version, before the handler runs in the same transaction, so that an older message that
   * arrives meanwhile waits, and is then stale. The handler must therefore not write the version column, and must not pass the
   * same change to `applyVersion` or `updateVersioned`.
   *
   * The guard sends one statement, and a second one only if nothing was updated. Besides the errors of all methods, it throws a
   * `RowNotFoundError` if there is no such row, and no `insert`; and an `InvalidMessageError`, which makes a dead letter, if
   * `where`, `version` or `insert` returns a value that is not valid, or a version that the column cannot hold.
   *
   * @returns a guard that returns `'apply'`, or `'stale'` if the row is already at this version or a later one.
   * @throws {InvalidOptionError} for a missing, unknown or wrong option.
   */
  readonly versionGuard: <P = unknown>(options: TableGuardOptions<Tables, P>) => TableGuard<P>
}
