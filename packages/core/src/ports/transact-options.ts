/** The isolation levels that `run` and `transact` take. */
export type IsolationLevel = 'read committed' | 'repeatable read' | 'serializable'

/** The options of a database's `transact`. */
export interface TransactOptions {
  /** The isolation level of the transaction. @default the server's default */
  isolation?: IsolationLevel | undefined
  /** If the signal is aborted before the transaction is open, `work` is not called. */
  signal?: AbortSignal | undefined
}
