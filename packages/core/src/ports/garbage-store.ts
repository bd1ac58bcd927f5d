/** The result of one batch. */
export interface Removal {
  readonly removed: number
  /** Whether there may be more rows to remove now. */
  readonly more: boolean
  /**
   * Where the next batch of this run begins its search. Pass the value back unchanged. It keeps the next batch from
   * scanning removed rows again, which stay in the index as long as another transaction's old snapshot needs them.
   */
  readonly next: string | undefined
}

/** What one run of the garbage collector removed in all, and how long the run took. */
export interface CollectionRecord {
  readonly inbox: number
  readonly deadLetters: number
  readonly durationMs: number
}

/**
 * The rows whose retention has passed. Any number of garbage collectors may run concurrently.
 *
 * - A batch is one short transaction. A batch removes at most `limit` rows, the oldest first, and only rows whose
 *   retention has passed by the database's clock. A batch skips rows that another transaction has locked. So exactly
 *   one collector removes and counts a row, and collectors cause no deadlocks.
 * - `'timed-out'`: a statement timeout, of the database or of the session, ended the batch. Nothing was removed.
 */
export interface GarbageStore {
  /** Removes claims whose retention has passed, with the results that are stored with them. */
  removeExpiredClaims(limit: number, from: string | undefined): Promise<Removal | 'timed-out'>
  /** Removes claims under a lease whose lease or retention has passed. */
  removeExpiredLeases(limit: number, from: string | undefined): Promise<Removal | 'timed-out'>
  /** Removes dead letters that died more than `retentionMs` ago. Other parked messages stay. */
  removeDeadLetters(
    limit: number,
    from: string | undefined,
    retentionMs: number,
  ): Promise<Removal | 'timed-out'>
  removeQueueDeadLetters(
    limit: number,
    from: string | undefined,
    retentionMs: number,
  ): Promise<Removal | 'timed-out'>
  /**
   * Removes the rows that handled messages leave in a stored queue until the next receive, and releases their keys. A
   * batch covers one shard of one queue. Skips a shard that a receiver has locked.
   */
  removeHandled(limit: number, from: string | undefined): Promise<Removal | 'timed-out'>
  /** Removes dead letters of local consumers that died more than `retentionMs` ago. */
  removeLocalDeadLetters(
    limit: number,
    from: string | undefined,
    retentionMs: number,
  ): Promise<Removal | 'timed-out'>
  /** Removes records of redrives that are older than `retentionMs`, even if the messages still exist. */
  removeRedrives(limit: number, from: string | undefined, retentionMs: number): Promise<Removal | 'timed-out'>
  /** Removes records of ended subscriptions that are older than `retentionMs`. */
  removeRemovals(limit: number, from: string | undefined, retentionMs: number): Promise<Removal | 'timed-out'>
  /** Removes dead letters of version buffers that died more than `retentionMs` ago. Waiting messages and positions stay. */
  removeBufferedDeadLetters(
    limit: number,
    from: string | undefined,
    retentionMs: number,
  ): Promise<Removal | 'timed-out'>
  /** Records what a run removed, for `txbox status`. Does not wait for another collector that writes its record. */
  record(collection: CollectionRecord): Promise<void>
}
