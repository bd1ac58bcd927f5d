import type { SqlResult } from './adapters.ts'

export interface Statement {
  readonly text: string
  readonly values: readonly unknown[]
}

/** A connection that txbox holds until it releases the connection. */
export interface OwnConnection {
  readonly query: (text: string, values: readonly unknown[]) => Promise<SqlResult>
  /**
   * Runs statements in one flight: after an error, the server skips the remaining statements. Absent if the library
   * sends one statement after the other.
   */
  readonly queryAll?: (statements: readonly Statement[]) => Promise<readonly SqlResult[]>
  /** Returns the connection; if `broken` is true, the connection must not be used again. */
  readonly release: (broken: boolean) => void
  /**
   * Called when the statement in flight has got no answer. Closes the connection if the library can do this at any time; then
   * `release` has no effect. Otherwise the connection is released when the statement ends.
   */
  readonly abandon?: () => void
}

export interface ListeningConnection {
  readonly query: (text: string) => Promise<unknown>
  readonly close: () => void
  /** The process id of the server's session, as the other end has told it. A pooler tells another one. */
  readonly processId?: unknown
}

/** What happens on a connection for LISTEN. */
export interface ListeningEvents {
  readonly notified: (payload: unknown, channel: unknown) => void
  readonly ended: (error: unknown) => void
}

/** Without a level, the server's default applies. */
export type Isolation = 'read committed' | 'repeatable read' | 'serializable'

/** A transaction that has not been opened yet, so that BEGIN can be sent together with the first statement. */
export interface Opening {
  /**
   * Sends BEGIN and a statement that returns no rows in one flight. If the server refuses BEGIN, the statement does not
   * run.
   *
   * @returns the number of rows that the statement wrote.
   */
  with(text: string, values: readonly unknown[]): Promise<number>
  /** Sends BEGIN alone, unless the transaction is already open. */
  alone(): Promise<void>
}

/** Adapts a pool or a root of one library: the object that opens transactions. */
export interface RootAdapter<R = unknown> {
  readonly name: string
  recognises(root: unknown): root is R
  /**
   * Whether `transact` throws when the server answers COMMIT with a rollback. If not, the caller must check the
   * transaction before.
   */
  readonly checksCommit: boolean
  /** Whether `transact` sets `idleLimitMs`. If not, the driver sets the limit, by a statement of its own. */
  readonly limitsIdleTime?: boolean
  /** Returns `undefined` if the root does not report its limit. */
  maxConnections(root: R): number | undefined
  /**
   * Runs one statement on any connection, outside a transaction. Rejects if there is no answer within `timeoutMs`,
   * because a connection whose server is gone may never report an error.
   */
  query(root: R, text: string, values: readonly unknown[], timeoutMs: number): Promise<SqlResult>
  /**
   * Runs a COPY … TO STDOUT and passes the unchanged bytes of each row to `row`, which must neither keep the bytes nor
   * block. In all other respects like `query`. Absent if the library does not support COPY.
   */
  copyOut?(
    root: R,
  ): ((text: string, timeoutMs: number, row: (bytes: Buffer) => void) => Promise<void>) | undefined
  /**
   * Runs one statement in a new READ COMMITTED transaction, in one round trip. The server cancels the statement after
   * `cancelAfterMs`. In all other respects like `query`. Absent if the library cannot do this in one round trip.
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
   * Opens a connection outside of the pool, so that no other code has to wait for a connection. Statements reject if
   * there is no answer within `timeoutMs`. If the adapter has `queryAlone`, each statement of the connection runs as with
   * `queryAlone`. Absent if the library cannot open such a connection.
   */
  connectApart?(root: R, timeoutMs: number): Promise<OwnConnection>
  /**
   * Opens a connection outside the pool for LISTEN. `notified` is called for each notification, and `ended` when the connection
   * has failed. Absent if the library cannot open such a connection.
   */
  connectListening?(root: R, timeoutMs: number, on: ListeningEvents): Promise<ListeningConnection>
  /**
   * Runs one transaction: COMMIT when `work` returns, ROLLBACK when it throws. A COMMIT that the server answers with a
   * rollback throws. If `opening` is present, BEGIN has not been sent, and `opening` must be used before any other
   * statement.
   *
   * @param idleLimitMs the server ends the connection when no statement was sent for so long. Ignored without `limitsIdleTime`.
   */
  transact<T>(
    root: R,
    work: (tx: unknown, opening: Opening | undefined) => Promise<T>,
    isolation: Isolation | undefined,
    idleLimitMs?: number,
  ): Promise<T>
}
