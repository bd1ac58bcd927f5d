export interface SqlResult {
  readonly rows: readonly Readonly<Record<string, unknown>>[]
  /** The number of rows written; NaN if the library does not report it. */
  readonly affected: number
  /** MySQL: the value to which the statement set `LAST_INSERT_ID`; 0 if the statement did not set it. */
  readonly insertId?: number
  /** MySQL, in the answer to a write: whether a transaction is open now. Absent if the library hides it. */
  readonly inTransaction?: boolean | undefined
}

/** MariaDB speaks MySQL's protocol. */
export type Engine = 'postgres' | 'mysql'

/** `'unknown'`: the library does not report the state; only the server can. */
export type TransactionState = 'open' | 'none' | 'aborted' | 'unknown'

/**
 * The events that a connection monitor has seen since the snapshot was taken. Each property is evaluated when it is
 * read.
 */
export interface Snapshot {
  /** Whether a statement failed or tried to end the transaction, so that the state of the transaction is in doubt. */
  readonly doubtful: boolean
  /**
   * Whether something was rolled back while the transaction stayed open. Only the database knows whether that was a
   * rollback to a savepoint older than the snapshot, or a rollback of the whole transaction (ROLLBACK AND CHAIN).
   */
  readonly rolledBack: boolean
  /** Whether the transaction ended, or an error rolled it back, even if another transaction began afterwards. */
  readonly ended: boolean
  /**
   * Whether the transaction of the snapshot has ended, so that the transaction that is open now, if any, is another one. On
   * MySQL, the beginning of another transaction ends the previous one.
   */
  readonly replaced: boolean
  /**
   * Whether a statement that rolls back the whole transaction was sent. A monitor that sees only answers notices the statement
   * when it is answered.
   */
  readonly undone: boolean
  /**
   * Whether something may have been committed: the transaction ended other than by a rollback or an error, or a statement succeeded
   * after a rollback, outside of every transaction. True wherever the monitor cannot see the difference.
   */
  readonly mayHaveCommitted: boolean
}

/** A snapshot that can ask MySQL and MariaDB whether there was a rollback to a savepoint older than the snapshot. */
export interface CheckedSnapshot extends Snapshot {
  /**
   * Returns whether everything that was written before the snapshot still exists and is not committed. Asks the server
   * only if a statement was sent that may have changed this. May be called only once.
   */
  isIntact(): Awaitable<boolean>
  /**
   * Resolves when the savepoint that marks the snapshot is set. The handler must not begin earlier. Absent if no
   * savepoint is needed.
   */
  readonly marked?: Promise<unknown>
  end(): void
}

/**
 * Follows the statements of one connection, or the answers to them, from the moment at which txbox first uses the
 * connection.
 */
export interface ConnectionMonitor {
  /**
   * Present for libraries that hide the state of the transaction, on databases where SQL cannot ask for that state
   * either (MySQL).
   */
  readonly tracker?: TransactionTracker
  /**
   * The error that aborted the transaction that is open now, or rolled it back, if this monitor has seen the error since its
   * first snapshot.
   */
  readonly abortedBy?: unknown
  snapshot(): Snapshot
  /**
   * Calls the listener once when the transaction that is open now has ended, and forgets the listener of an earlier
   * transaction, whose end was not seen. Absent if no end can be seen.
   */
  onceEnded?(listener: (isCommitted: boolean) => void): void
  /** Present for MySQL and MariaDB. The caller must end the snapshot. */
  checkedSnapshot?(): CheckedSnapshot
  /** Sends statements without values, with no other statement of the connection in between. */
  sendTogether?(statements: readonly string[]): Promise<void>
}

/** The state of a connection's transaction, as derived from the statements on the connection. */
export interface TransactionTracker {
  /** Counts the statements that begin or end a transaction, from the moment at which they are sent. */
  readonly changes: number
  /** Counts the statements that roll a transaction back, from the moment at which they are sent. */
  readonly rollbacks: number
  /**
   * Whether BEGIN was seen, and after it no statement that could have ended the transaction. If `false`, ask the server
   * and store the answer here.
   */
  open: boolean
  /**
   * Whether the last statement that began or ended a transaction ended one. With autocommit off, MySQL opens the next
   * transaction by itself: when the server reports an open transaction, store that here.
   */
  ended: boolean
  /**
   * MySQL and MariaDB: whether a statement failed in a way that rolls the transaction back, and no transaction has
   * begun or ended since. The server may report otherwise: see `ROLLED_BACK`. `'perhaps'`: a lock wait timed out, which
   * rolls back if `innodb_rollback_on_timeout` is on.
   */
  readonly rolledBack: 'yes' | 'perhaps' | 'no'
}

/** The result of a method that is called for every message: a promise only if there is something to wait for. */
export type Awaitable<T> = T | Promise<T>

/**
 * Runs the statements of txbox on the connections of one driver, and follows the state of their transactions. A library
 * that is built on a driver needs no adapter, only a `TransactionLibrary` that finds the driver's connection.
 */
export interface DriverAdapter<H = unknown> {
  readonly name: string
  /**
   * Returns whether this is a transaction, a connection, a pool or a root of this driver, judging by its structure. The
   * handle may be a proxy, so its properties are only read, and `in` and `instanceof` are not used.
   */
  recognises(handle: unknown): handle is H
  /**
   * Returns the kind of database that the handle is connected to. Absent if the driver is for one kind only; `undefined` if the
   * handle does not show it.
   */
  readonly engineOf?: (handle: H) => Engine | undefined
  /**
   * Returns an object that identifies the connection or its transaction: a handle may be a proxy that several
   * transactions share. Absent if the result of `monitor`, or the handle itself, is such an object.
   */
  readonly identityOf?: (handle: H) => object
  /**
   * Returns the state of the transaction. Costs no round trip, unless statements are still in flight on the connection.
   *
   * @param monitor the result of `monitor`. Without it, the adapter finds the monitor by itself if it needs one.
   */
  state(handle: H, monitor?: ConnectionMonitor): Awaitable<TransactionState>
  /**
   * Returns the state at this moment, without waiting; `undefined` while statements are in flight. Call it in the tick
   * in which a statement is sent: a caller that does not await txbox may have ended the transaction since `state`.
   */
  stateNow?(handle: H): TransactionState | undefined
  query(handle: H, text: string, values: readonly unknown[]): Promise<SqlResult>
  /** Whether the answer to a write contains `inTransaction` (MySQL). */
  readonly reportsTransaction?: boolean
  /**
   * Whether txbox can see neither the statements of a handler nor the state of the transaction (MySQL), so that it must
   * ask the server.
   */
  readonly hidesState?: boolean
  /**
   * Returns the monitor of the handle's connection; `undefined` if the connection cannot be monitored, or no
   * transaction is open.
   */
  monitor(handle: H): Awaitable<ConnectionMonitor | undefined>
  /**
   * Closes the connection at once, so that the server rolls back its transaction and no later statement reaches the
   * server; or refuses every later statement except the library's ROLLBACK. Absent if the library hides its connection.
   */
  readonly sever?: (handle: H) => void
  /**
   * Listens for the error by which the server ends the connection while no statement is in flight: a later statement does
   * not show the reason. Absent if the library hides its connection.
   */
  readonly watchEnd?: (handle: H) => EndOfConnection
  /** @default true */
  readonly canSever?: (handle: H) => boolean
  /**
   * Lets the server end the connection when this transaction has sent no statement for so long. Absent if the limit would outlive
   * the transaction (MySQL), or if more than the transaction would end: PGlite is the server itself, and a library on top of
   * postgres.js ends the process when it sends COMMIT or ROLLBACK on a connection that has ended.
   */
  readonly limitIdleTime?: (handle: H, milliseconds: number) => Promise<unknown>
}

export interface EndOfConnection {
  /** The error of the server; `undefined` as long as there is none. */
  readonly reason: unknown
  readonly stop: () => void
}

/** The driver's connection under a transaction that a caller passed. */
export interface Resolved {
  readonly driver: DriverAdapter
  readonly connection: unknown
  /** The name of the library for error messages, such as 'Drizzle'. */
  readonly name: string
  /** Whether the transaction is open as far as the libraries on top of the driver know. */
  readonly isOpen: () => boolean
  /**
   * Waits until the libraries have sent the statements that a handler did not await. Absent without a library: a driver
   * sends at once.
   */
  readonly settled?: (() => Promise<void>) | undefined
}
