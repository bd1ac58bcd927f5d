/** The rows that a statement returned and the number of rows that it wrote, whatever the library calls them. */
export interface SqlResult {
  readonly rows: readonly Readonly<Record<string, unknown>>[]
  /** NaN where the library does not say. */
  readonly affected: number
  /** MySQL: the value to which the statement set `LAST_INSERT_ID`; 0 if the statement did not set it. */
  readonly insertId?: number
  /** MySQL, in the answer to a write: whether a transaction is open now. Absent where the library hides it. */
  readonly inTransaction?: boolean
}

/** The kind of database behind a handle. MariaDB speaks MySQL's protocol. */
export type Engine = 'postgres' | 'mysql'

/** `'unknown'`: the library does not say; only the server's answer can. */
export type TransactionState = 'open' | 'none' | 'aborted' | 'unknown'

/** What a connection monitor has seen since the snapshot was taken. Each property has the value of the moment of reading. */
export interface Snapshot {
  /** A statement failed or tried to end the transaction, so the state of the transaction is in doubt. */
  readonly doubtful: boolean
  /**
   * Something was rolled back while the transaction stayed open. Only the database can tell whether that was a rollback to
   * a savepoint older than the snapshot, or a rollback of the whole transaction (ROLLBACK AND CHAIN).
   */
  readonly rolledBack: boolean
  /** The transaction ended, or an error rolled it back, whether or not another one began afterwards. */
  readonly ended: boolean
  /** Another transaction began. On MySQL that ends the transaction before. */
  readonly replaced: boolean
}

/** A snapshot that can ask MySQL and MariaDB whether there was a rollback to a savepoint older than the snapshot. */
export interface CheckedSnapshot extends Snapshot {
  /**
   * Is everything that was written before the snapshot still there, and not yet committed? Asks the server only if a
   * statement was sent that may have changed that. Must be called at most once.
   */
  isIntact(): Promise<boolean>
  end(): void
}

/** Follows the statements of one connection, or their answers, from the moment at which txbox first meets the connection. */
export interface ConnectionMonitor {
  /** For libraries that hide the state of the transaction, where SQL cannot ask for that state either (MySQL). */
  readonly tracker?: TransactionTracker
  snapshot(): Snapshot
  /** For MySQL and MariaDB. The caller must end the snapshot. */
  checkedSnapshot?(): CheckedSnapshot
  /** Sends statements without values. No other statement on the connection gets in between. */
  sendTogether?(statements: readonly string[]): Promise<void>
}

/** What the statements of a connection say about its transaction. */
export interface TransactionTracker {
  /**
   * BEGIN was seen, and nothing after it that could have ended the transaction. Where this is `false`, ask the server and
   * store the answer here.
   */
  open: boolean
  /**
   * Of the statements that begin or end a transaction, the last one ended one. With autocommit off MySQL opens the next
   * transaction by itself: when the server says that a transaction is open, store that here.
   */
  ended: boolean
  /**
   * MySQL and MariaDB: a statement failed in a way that rolls the transaction back, and none has begun or ended since. The
   * server may deny it: see `ROLLED_BACK`. `'perhaps'`: a lock wait timed out, which rolls back where
   * `innodb_rollback_on_timeout` is on.
   */
  readonly rolledBack: 'yes' | 'perhaps' | 'no'
}

/** Not always a promise: these questions are asked for every message, and most answers need no waiting. */
type Awaitable<T> = T | Promise<T>

/** How to use the transactions of one library. Everything that txbox knows about a library is in one file. */
export interface HandleAdapter<H = unknown> {
  readonly library: 'kysely' | 'pg' | 'mysql2'
  /** Is this a transaction, a connection, a pool or a root of this library? Recognized by structure. */
  recognises(handle: unknown): handle is H
  /**
   * Costs no round trip, unless statements are still in flight on the connection.
   *
   * @param monitor what `monitor` has just returned; without it the adapter looks the monitor up where it needs one.
   */
  state(handle: H, monitor?: ConnectionMonitor): Awaitable<TransactionState>
  /**
   * The state at this very moment, without waiting; `undefined` while statements are in flight. Ask in the tick in which a
   * statement is sent: a caller that does not await txbox may have ended the transaction since `state`.
   */
  stateNow?(handle: H): TransactionState | undefined
  query(handle: H, text: string, values: readonly unknown[]): Promise<SqlResult>
  /** The answer to a write has `inTransaction` (MySQL). */
  readonly tellsTransaction?: boolean
  /** The monitor of the handle's connection. `undefined` where the connection cannot be watched, or no transaction is open. */
  monitor(handle: H): Awaitable<ConnectionMonitor | undefined>
}

/** A connection that txbox holds until it releases the connection. */
export interface OwnConnection {
  readonly query: (text: string, values: readonly unknown[]) => Promise<SqlResult>
  /** `broken`: the connection must not be used again. */
  readonly release: (broken: boolean) => void
}

/** A connection on which the server reports notifications. */
export interface ListeningConnection {
  readonly query: (text: string) => Promise<unknown>
  readonly close: () => void
}

/** The isolation levels that a transaction can be opened with. Without one, the server's default holds. */
export type Isolation = 'read committed' | 'repeatable read' | 'serializable'

/** A transaction that has not been opened yet, so that BEGIN can travel with its first statement. */
export interface Opening {
  /**
   * Sends BEGIN and a statement that returns no rows in one flight. If BEGIN is refused the statement does not run.
   *
   * @returns the number of rows that the statement wrote.
   */
  with(text: string, values: readonly unknown[]): Promise<number>
  /** Sends BEGIN alone. Does nothing when the transaction is open. */
  alone(): Promise<void>
}

/** How to use a pool or a root of one library: the object that opens transactions. */
export interface RootAdapter<R = unknown> {
  readonly library: 'kysely' | 'pg' | 'mysql2'
  recognises(root: unknown): root is R
  /** The maximum number of connections that the root opens, where the root says so. */
  maxConnections(root: R): number | undefined
  /**
   * One statement on any connection, in no transaction. Rejects when there is no answer within `timeoutMs`: a connection
   * whose other end is gone may never report that.
   */
  query(root: R, text: string, values: readonly unknown[], timeoutMs: number): Promise<SqlResult>
  /**
   * The bytes that a COPY … TO STDOUT sends, row by row and unchanged, where the library lets them through; `row` must
   * neither keep the bytes nor block. As `query` otherwise.
   */
  copyOut?(
    root: R,
  ): ((text: string, timeoutMs: number, row: (bytes: Buffer) => void) => Promise<void>) | undefined
  /**
   * One statement in a READ COMMITTED transaction of its own, in one round trip, where the library lets that through. The
   * server cancels the statement after `cancelAfterMs`. As `query` otherwise.
   */
  queryAlone?(
    root: R,
  ):
    | ((
        text: string,
        values: readonly unknown[],
        limits: { readonly timeoutMs: number; readonly cancelAfterMs: number },
      ) => Promise<SqlResult>)
    | undefined
  connect(root: R): Promise<OwnConnection>
  /**
   * A connection outside the pool, which nothing else waits for, where the library can open one. Otherwise statements go
   * through the pool, each on any connection. No answer within `timeoutMs` rejects. Where the library has `queryAlone`,
   * each statement of the connection runs like that.
   */
  connectApart(root: R, timeoutMs: number): Promise<OwnConnection>
  /**
   * A connection outside the pool to LISTEN on, where the library can open one: `notified` is called for each
   * notification, `ended` when the connection has failed.
   */
  connectListening?(
    root: R,
    timeoutMs: number,
    on: { readonly notified: () => void; readonly ended: (error: unknown) => void },
  ): Promise<ListeningConnection>
  /**
   * One transaction: COMMIT when `work` returns, ROLLBACK when it throws. A COMMIT that the server answers with a rollback
   * throws. `opening` is present when BEGIN has not been sent: it must be used before anything else.
   */
  transact<T>(
    root: R,
    work: (tx: unknown, opening: Opening | undefined) => Promise<T>,
    isolation: Isolation | undefined,
  ): Promise<T>
}
