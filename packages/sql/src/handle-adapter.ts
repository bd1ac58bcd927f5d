/** Rows and the number of rows that a statement wrote, whatever the library calls them. */
export interface SqlResult {
  readonly rows: readonly Readonly<Record<string, unknown>>[]
  /** NaN where the library does not say. */
  readonly affected: number
  /** MySQL: what `LAST_INSERT_ID` was set to by the statement, 0 if it was not. */
  readonly insertId?: number
  /** MySQL, in the answer to a write: is a transaction open now? Absent where the library hides it. */
  readonly inTransaction?: boolean
}

/** The driver underneath, and with it the kind of database. */
export type Driver = 'pg' | 'mysql2'

/** `'unknown'`: the library does not say, only the server's answer can. */
export type TransactionState = 'open' | 'none' | 'aborted' | 'unknown'

/** What was seen of a connection since the observation began, as it is when it is asked. */
export interface Observation {
  /** A statement failed, or tried to end the transaction: its state is open to doubt. */
  readonly doubtful: boolean
  /**
   * Something was rolled back while the transaction stayed open. Whether that was to a savepoint that is older than the
   * observation, or the whole transaction (ROLLBACK AND CHAIN), only the database can tell.
   */
  readonly rolledBack: boolean
  /** The transaction was ended, or rolled back by an error; whether another was begun after it makes no difference. */
  readonly ended: boolean
  /** Another transaction was begun. On MySQL that ends the one before. */
  readonly replaced: boolean
}

/** An observation that can ask MySQL and MariaDB whether there was a rollback to a savepoint from before its beginning. */
export interface Guard extends Observation {
  /**
   * Is everything that was written before the observation began still there, and not committed? Asks the server only if a
   * statement was sent that may have changed that. Must be called at most once.
   */
  isIntact(): Promise<boolean>
  end(): void
}

/** A connection whose statements, or their answers, are seen from the first time that it was met. */
export interface Seen {
  /** For libraries that hide the state of the transaction, where SQL cannot ask for it either (MySQL). */
  readonly track?: Track
  observe(): Observation
  /** For MySQL and MariaDB. The caller must end the observation. */
  guard?(): Guard
  /** Sends statements without values. No other statement on the connection gets in between. */
  sendTogether?(statements: readonly string[]): Promise<void>
}

/** What is known of the transaction of a connection from all statements that were seen on it. */
export interface Track {
  /**
   * BEGIN was seen, and nothing after it that could have ended the transaction. `false`: ask the server, and note what
   * it says here.
   */
  open: boolean
  /**
   * The last statement that began or ended a transaction ended one. With autocommit off MySQL opens the next one by
   * itself: when the server says that a transaction is open, note it here.
   */
  ended: boolean
  /**
   * MySQL and MariaDB: a statement has failed in a way that rolls the transaction back, and nothing has begun or ended one
   * since. The server may deny it: see `ROLLED_BACK`. `'perhaps'`: a lock wait timed out, which rolls back where
   * `innodb_rollback_on_timeout` is on.
   */
  readonly rolledBack: 'yes' | 'perhaps' | 'no'
}

/** No promise where nothing is waited for: these are asked for every message. */
type Awaitable<T> = T | Promise<T>

/** How to use the transactions of one library. All knowledge of a library is in its one file. */
export interface HandleAdapter<H = unknown> {
  readonly library: 'kysely' | 'pg' | 'mysql2'
  /** Is this a transaction, a connection, a pool or a root of this library? Told by structure. */
  recognises(handle: unknown): handle is H
  /**
   * Costs no round trip, unless statements are still under way on the connection.
   *
   * @param seen what `seen` has just answered; otherwise it is looked for, where it is needed.
   */
  state(handle: H, seen?: Seen): Awaitable<TransactionState>
  /**
   * The state at this very moment, without waiting; `undefined` while statements are under way. To be asked in the same
   * tick in which a statement is sent: whoever does not await us may have ended the transaction since `state`.
   */
  stateNow?(handle: H): TransactionState | undefined
  query(handle: H, text: string, values: readonly unknown[]): Promise<SqlResult>
  /** The answer to a write has `inTransaction` (MySQL). */
  readonly tellsTransaction?: boolean
  /** The connection of the handle, seen from now on. Nothing where it cannot be, or where no transaction is open. */
  seen(handle: H): Awaitable<Seen | undefined>
}

/** A connection that stays ours until it is released. */
export interface OwnConnection {
  readonly query: (text: string, values: readonly unknown[]) => Promise<SqlResult>
  /** `broken`: do not use it again. */
  readonly release: (broken: boolean) => void
}

/** A connection on which the server tells of notifications. */
export interface ListeningConnection {
  readonly query: (text: string) => Promise<unknown>
  readonly close: () => void
}

/** The isolation levels that a transaction can be opened with; none: the server's default. */
export type Isolation = 'read committed' | 'repeatable read' | 'serializable'

/** A transaction that has not been opened yet, so that BEGIN can travel with its first statement. */
export interface Opening {
  /**
   * BEGIN and a statement that returns no rows in one flight. If BEGIN is refused the statement does not run.
   *
   * @returns how many rows it wrote.
   */
  with(text: string, values: readonly unknown[]): Promise<number>
  /** BEGIN alone. Nothing to do when the transaction is open. */
  alone(): Promise<void>
}

/** How to use a pool or a root of one library: what opens transactions. */
export interface RootAdapter<R = unknown> {
  readonly library: 'kysely' | 'pg' | 'mysql2'
  recognises(root: unknown): root is R
  /** The most connections that it opens, where it says so. */
  maxConnections(root: R): number | undefined
  /**
   * One statement on any connection, in no transaction. Rejects when there is no answer within `timeoutMs`: a connection
   * whose other end is gone may never tell.
   */
  query(root: R, text: string, values: readonly unknown[], timeoutMs: number): Promise<SqlResult>
  /**
   * What a COPY … TO STDOUT sends, a row at a time and as it is, where the library lets it through; `row` must not keep
   * the bytes, nor hold them up. As `query` otherwise.
   */
  copyOut?(
    root: R,
  ): ((text: string, timeoutMs: number, row: (bytes: Buffer) => void) => Promise<void>) | undefined
  /**
   * One statement in a READ COMMITTED transaction of its own, in one round trip, where the library lets that through. The
   * server cancels the statement after `cancelAfterMs`. Otherwise the same as `query`.
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
   * A connection that nothing else waits for, where the library can open one outside of its pool; otherwise statements
   * go through the pool, each on a connection of its own. No answer within `timeoutMs` rejects. Where the library has
   * `queryAlone`, each statement of the connection runs like that.
   */
  connectApart(root: R, timeoutMs: number): Promise<OwnConnection>
  /**
   * A connection apart to LISTEN on, where the library can open one: `notified` is called for each notification,
   * `ended` when the connection has failed.
   */
  connectListening?(
    root: R,
    timeoutMs: number,
    on: { readonly notified: () => void; readonly ended: (error: unknown) => void },
  ): Promise<ListeningConnection>
  /**
   * One transaction: COMMIT when `work` returns, ROLLBACK when it throws. A COMMIT that is answered by a rollback
   * throws. `opening` is there when BEGIN has not been sent: it must be used before anything else.
   */
  transact<T>(
    root: R,
    work: (tx: unknown, opening: Opening | undefined) => Promise<T>,
    isolation: Isolation | undefined,
  ): Promise<T>
}
