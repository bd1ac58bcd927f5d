/**
 * Remembers which messages were handled, for handlers without a transaction: `begin` before the handler, `complete` after
 * it. The guarantee is weaker than that of an inbox table: if the process dies between the handler's effect and `complete`,
 * there is no mark, and the message is handled again.
 */
export interface DedupStore {
  /**
   * The reaction of a consumer when `begin` throws `DedupStoreUnavailableError`. `'fail'`: the consumer tries the message again
   * later, and counts no attempt. `'process'`, only with an inbox: the handler runs, and the inbox recognizes duplicates.
   *
   * @default 'fail'
   */
  readonly onUnavailable?: 'fail' | 'process' | undefined
  /**
   * Claims a key atomically: of concurrent calls for one key, one wins. `leaseMs` limits how long the winner excludes other
   * callers, 1 s to 1 h.
   *
   * @throws {DedupStoreUnavailableError} when the store cannot be reached.
   */
  begin(claim: {
    readonly consumer: string
    readonly key: string
    readonly leaseMs: number
  }): Promise<DedupResult>
  /**
   * Marks the message as handled, if the token still owns the key. `retentionMs` counts from this call; its default is the
   * store's own retention.
   */
  complete(
    token: string,
    how: { readonly retentionMs?: number | undefined; readonly result?: string | undefined },
  ): Promise<'completed' | 'stale'>
  /** Releases the key, so that another delivery can handle the message at once. */
  release(token: string): Promise<'released' | 'stale'>
  /** Extends the lease to `leaseMs` from now, if the token still owns the key. */
  extend(token: string, leaseMs: number): Promise<'extended' | 'stale'>
  /**
   * Returns one sentence about a setting of the server that weakens the guarantee of the store, if there is one. A consumer
   * logs the sentence when it starts. Never rejects.
   */
  warning?(): Promise<string | undefined>
}

export type DedupResult =
  /** The caller handles the message; `token` identifies the caller in the other calls. */
  | { readonly status: 'won'; readonly token: string }
  /** The message was handled before. */
  | { readonly status: 'done'; readonly firstProcessedAt: Date; readonly result?: string }
  /** Another delivery handles the message. */
  | { readonly status: 'in-flight'; readonly retryAfterMs: number }
