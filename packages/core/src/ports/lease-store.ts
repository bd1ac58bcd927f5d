/** The right to work on something, for a while, by the database's clock. */
export interface Lease {
  readonly name: string
  readonly owner: string
  /** In which turn: grows by one at each take-over. A fencing number. */
  readonly term: bigint
  /**
   * How many owners in a row let the lease run out, or were cut off in the middle of a call, since the last owner that
   * reported `RelayStore.survived`. The owner before this term is included.
   */
  readonly crashes: number
  /** The note of the last owner on its messages in flight, if that owner wrote one and did not finish. */
  readonly inFlight: string | undefined
}

/** A lease as others see it. */
export interface LeaseHolder {
  readonly name: string
  readonly owner: string
}

/**
 * Leases by name. Any names: shards are one use of it. All times are the database's, so that machines whose clocks
 * differ agree. Every method works through a connection of its own, which it opens anew after a failure, so that a
 * lease is renewed while all other connections are busy.
 */
export interface LeaseStore {
  /**
   * Takes at most `limit` of those that are free or have run out; never waits for another acquirer. A lease that was
   * held by the same owner before gets a new term too.
   */
  acquire(names: readonly string[], options: LeaseRequest & { limit: number }): Promise<readonly Lease[]>
  /** Extends those that are still held under their term and have not run out. → those. */
  renew(leases: readonly Lease[], ttlMs: number): Promise<readonly Lease[]>
  /**
   * Gives back the leases that are still held under their term, so that others can take them at once. The leases in
   * `cutOff` had something in flight that was cut off: that counts as a crash, and the note of what is in flight stays.
   */
  release(leases: readonly Lease[], cutOff?: ReadonlySet<Lease>): Promise<void>
  /** Who holds a live lease whose name starts with `prefix`? */
  holders(prefix: string): Promise<readonly LeaseHolder[]>
  /** Deletes those whose name starts with `prefix` and that nobody has held for `olderThanMs`: their terms are forgotten. */
  sweep(prefix: string, olderThanMs: number): Promise<void>
  /** Closes the connection. The store can be used again: it opens another. */
  close(): Promise<void>
}

export interface LeaseRequest {
  readonly owner: string
  readonly ttlMs: number
}
