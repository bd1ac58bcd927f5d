import type { Session } from './session.ts'

/** A value of a column. Objects and arrays are JSON text. */
export type ColumnValue = string | number | bigint | boolean | Date | Uint8Array | null
export type ColumnValues = Readonly<Record<string, ColumnValue>>

/** A row of a table of the user, by the columns of a unique key. All names are those of the database. */
export interface UserRow {
  /** `orders`, or with its schema (on MySQL and MariaDB its database) `sales.orders`. */
  readonly table: string
  /** At least one column. */
  readonly key: ColumnValues
  /** The beginning of error messages: `updateVersioned: orders (id = 'o1')` */
  readonly doing: string
}

/** A point in time with microseconds, as text. */
export interface PreciseInstant {
  /** `2026-01-31T23:59:59.123456Z` */
  readonly iso: string
  /** `2026-01-31 23:59:59.123456`, in UTC */
  readonly utc: string
  /** The number of decimals of the second, without trailing zeros. */
  readonly decimals: number
}

/** What the row must be for a write. The check is part of the statement that writes. */
export type RowCondition =
  | { readonly is: 'at'; readonly column: string; readonly version: bigint }
  | { readonly is: 'below'; readonly column: string; readonly version: bigint }
  | { readonly is: 'one of'; readonly column: string; readonly states: readonly string[] }
  | {
      /**
       * The column contains null or an earlier time, would not round this time, and this time is at most `maxAheadMs` ahead of the
       * server's clock.
       */
      readonly is: 'older'
      readonly column: string
      readonly at: PreciseInstant
      readonly maxAheadMs: number | undefined
    }

export interface RowChange {
  /** The columns to write, without those of the key and without the column of the condition. */
  readonly set: ColumnValues
  /** The new value of the column of the condition. */
  readonly to: bigint | string | PreciseInstant
  readonly condition: RowCondition
}

/** The smallest and the greatest version that a column can hold. */
export interface VersionRange {
  readonly min: bigint
  readonly max: bigint
  /** The type of the column, for error messages. */
  readonly type: string
}

/** Opens transactions on the root that the user passed as `db`. */
export interface RowRoot {
  readonly db: object
  /** Like `ConnectedPorts.transact`, but needs no tables of txbox. */
  transact<R>(work: (tx: unknown, session: Session) => Promise<R>): Promise<R>
}

/**
 * Tables of the user, whose rows are written only if they are at a version, before a time or in a state. Needs no tables
 * of txbox. Names are quoted and values are parameters.
 *
 * Errors of the database are rethrown unchanged, except that an error that asks for another attempt is a
 * `TransactionConflictError`, one of the connection a `DatabaseUnavailableError`, and one that concerns a name or the
 * type of a column an `InvalidOptionError`.
 */
export interface RowStore {
  /** Absent if the database has no `db`. */
  readonly root?: RowRoot | undefined
  /**
   * Like `DatabasePorts.bind`, but needs no tables of txbox, and makes sure that a transaction is open: what is written to
   * tables of the user outside of one cannot be taken back.
   */
  bind(handle: unknown): Promise<Session>
  /**
   * Returns the versions that a column can hold; `undefined` if the catalog does not have the column, or the column has no
   * type of whole numbers. The server is asked once for each table, unless `again` is true: the type of a column can be
   * altered.
   */
  rangeOf(
    session: Session,
    row: UserRow,
    column: string,
    options: { readonly again: boolean },
  ): Promise<VersionRange | undefined>
  /**
   * Updates the row if the condition holds.
   *
   * @returns the number of rows that were written, and the value of the condition's column, as text, if the database
   *   returns that value: a trigger may have changed it.
   */
  update(
    session: Session,
    row: UserRow,
    change: RowChange,
  ): Promise<{ readonly count: number; readonly found?: string }>
  /**
   * Deletes the row if the condition holds.
   *
   * @returns the number of rows that were deleted.
   */
  delete(session: Session, row: UserRow, condition: RowCondition): Promise<number>
  /**
   * Inserts the row, or updates it if the condition holds, with one statement. For a time that is ahead of the clock, or would
   * be rounded, inserts nothing.
   *
   * @param insert the values of a new row, without those of the key and without the column of the condition.
   * @returns whether the row was written.
   * @throws {InvalidOptionError} when the columns of the key contain no unique key of the table, or the new row collides with
   *   another row by another key.
   */
  insertOrUpdate(
    session: Session,
    row: UserRow,
    change: RowChange & { readonly insert: ColumnValues },
  ): Promise<boolean>
  /**
   * Reads the column of the condition as text, or for `'older'` what speaks against the write: `'ahead'`, `'rounds'` or
   * `'stale'`; `'newer'` if nothing does. Waits for a transaction that is changing the row, reads the committed row instead of
   * an old snapshot, and keeps it as it is until the end of the transaction.
   *
   * @returns at most two rows.
   */
  look(session: Session, row: UserRow, condition: RowCondition): Promise<readonly (string | null)[]>
  /** Returns why a time would not be inserted: `'ahead'` or `'rounds'`; `'newer'` if nothing speaks against it. */
  refusalOf(
    session: Session,
    row: UserRow,
    condition: RowCondition & { readonly is: 'older' },
  ): Promise<string>
  /**
   * Reads the row: whole numbers as number, and beyond 2^53 as bigint; decimals as text; floating-point numbers as number;
   * truth values as boolean; JSON parsed; instants as Date; bytes as Uint8Array; everything else as text. With `locked`, reads
   * the current row, and locks it until the end of the transaction.
   *
   * @returns at most two rows.
   * @throws {InvalidOptionError} when the catalog does not have the table.
   */
  read(
    session: Session,
    row: UserRow,
    options: { readonly locked: boolean },
  ): Promise<readonly Readonly<Record<string, unknown>>[]>
}
