/** What one batch did. */
export interface Removal {
  /** Rows that this batch has removed. */
  readonly removed: number
  /** There may be more to remove now. */
  readonly more: boolean
  /**
   * Where the next batch of this run begins its search, so that it does not walk again over what the run has removed:
   * an old snapshot of somebody else keeps those rows in the index. To be handed back as it is.
   */
  readonly next: string | undefined
}

/** What a run of the collector removed in all, and when. */
export interface CollectionRecord {
  readonly inbox: number
  readonly deadLetters: number
  readonly durationMs: number
}

/**
 * What nobody needs any more. Any number of collectors may run.
 *
 * - A batch is one short transaction. It removes at most `limit` rows, the oldest first, and only those whose time has
 *   passed by the database's clock. It never waits for a row that somebody else has locked: it leaves that one out. So a
 *   row is removed, and counted, by one collector, and no deadlock comes of it.
 * - `'timed-out'`: a statement timeout, the database's or the session's, has cut the batch off. Nothing was removed.
 */
export interface GarbageStore {
  /** Claims whose retention has passed, with the results that are stored beside them. */
  removeExpiredClaims(limit: number, from: string | undefined): Promise<Removal | 'timed-out'>
  /** Dead letters that died more than `retentionMs` ago. Nothing else of what is parked. */
  removeDeadLetters(
    limit: number,
    from: string | undefined,
    retentionMs: number,
  ): Promise<Removal | 'timed-out'>
  /** Records of redrives that are older than `retentionMs`. The messages themselves have nothing to do with it. */
  removeRedrives(limit: number, from: string | undefined, retentionMs: number): Promise<Removal | 'timed-out'>
  /** Dead letters of version buffers that died more than `retentionMs` ago. Waiting messages and positions stay. */
  removeBufferedDeadLetters(
    limit: number,
    from: string | undefined,
    retentionMs: number,
  ): Promise<Removal | 'timed-out'>
  /** Writes down, for others to see, what a run has removed. Does not wait for another collector that does so now. */
  record(collection: CollectionRecord): Promise<void>
}
