/**
 * Remembers which messages were handled, for handlers without a transaction: `begin` before the handler, `complete` after
 * it. The promise is weaker than that of an inbox table: a process that dies between the handler's effect and `complete`
 * leaves no mark, and the message is handled again.
 */
export interface DedupStore {
  /**
   * What a consumer does when `begin` throws `DedupStoreUnavailableError`. `'fail'`: the delivery goes back uncounted.
   * `'process'`, only with an inbox: the handler runs, and the inbox recognizes duplicates.
   *
   * @default 'fail'
   */
  readonly onUnavailable?: 'fail' | 'process' | undefined
  /**
   * Atomic: of concurrent calls for one key, one wins. `leaseMs` bounds how long the winner keeps others out, 1 s to 1 h.
   *
   * @throws {DedupStoreUnavailableError} when the store cannot be reached.
   */
  begin(claim: {
    readonly consumer: string
    readonly key: string
    readonly leaseMs: number
  }): Promise<DedupResult>
  /**
   * Marks the message as handled, if the token is still the owner's. `retentionMs` counts from this call, and has the
   * store's own default.
   */
  complete(
    token: string,
    how: { readonly retentionMs?: number | undefined; readonly result?: string | undefined },
  ): Promise<'completed' | 'stale'>
  /** Gives the key up, so that another delivery can handle the message at once. */
  release(token: string): Promise<'released' | 'stale'>
  extend(token: string, leaseMs: number): Promise<'extended' | 'stale'>
  /** Returns what weakens the promise as the server is set up, in one sentence; a consumer logs it at its start. Never rejects. */
  warning?(): Promise<string | undefined>
}

export type DedupResult =
  /** The caller handles the message; `token` identifies the caller in the other calls. */
  | { readonly status: 'won'; readonly token: string }
  | { readonly status: 'done'; readonly firstProcessedAt: Date; readonly result?: string }
  /** Another delivery handles the message. */
  | { readonly status: 'in-flight'; readonly retryAfterMs: number }
