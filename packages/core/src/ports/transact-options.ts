export type IsolationLevel = 'read committed' | 'repeatable read' | 'serializable'

export interface TransactOptions {
  /** @default the server's default */
  isolation?: IsolationLevel | undefined
  /** If the signal is aborted before the transaction is open, `work` is not called. */
  signal?: AbortSignal | undefined
}
