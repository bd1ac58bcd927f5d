/** The exclusive right to work on something for a limited time, by the database's clock. */
export interface Lease {
  readonly name: string
  readonly owner: string
  /** A fencing number: grows by one each time the lease is acquired. */
  readonly term: bigint
  /**
   * The number of owners in a row that let the lease expire, or were cut off in the middle of a call, since the last
   * owner that reported `RelayStore.survived`. The owner before this term is included.
   */
  readonly crashes: number
  /** The previous owner's note about its messages in flight, if that owner wrote one and did not finish. */
  readonly inFlight: string | undefined
}

export interface LeaseHolder {
  readonly name: string
  readonly owner: string
}

/**
 * Leases by name. Any name may be leased; the relay leases shards. All times are by the database's clock, so that
 * machines whose clocks differ agree. The store has its own connection, so that a lease is renewed while all other
 * connections are busy. After a failure, the store opens another connection.
 */
export interface LeaseStore {
  /**
   * Acquires at most `limit` of the named leases that are free or have expired. Never waits for another acquirer. The
   * term grows even if the same owner held the lease before.
   */
  acquire(names: readonly string[], options: LeaseRequest & { limit: number }): Promise<readonly Lease[]>
  /** Extends the leases that are still held under their term and have not expired. @returns the extended leases. */
  renew(leases: readonly Lease[], ttlMs: number): Promise<readonly Lease[]>
  /**
   * Releases the leases that are still held under their term, so that other owners can acquire them at once. The leases
   * in `cutOff` had a call in flight that was cut off: such a release counts as a crash, and the note about the
   * messages in flight stays.
   */
  release(leases: readonly Lease[], cutOff?: ReadonlySet<Lease>): Promise<void>
  /** Returns the holders of unexpired leases whose names start with `prefix`. */
  holders(prefix: string): Promise<readonly LeaseHolder[]>
  /** Deletes leases whose names start with `prefix` and that had no holder for `olderThanMs`. Their terms start again. */
  sweep(prefix: string, olderThanMs: number): Promise<void>
  /** Closes the connection. The store stays usable: the next call opens another connection. */
  close(): Promise<void>
}

export interface LeaseRequest {
  readonly owner: string
  readonly ttlMs: number
}
