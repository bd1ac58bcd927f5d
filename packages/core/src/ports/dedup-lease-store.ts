/** The owner of a claim, with a random name. */
export interface DedupOwner {
  readonly consumer: string
  /** The stored form of the key: see `inboxKey`. */
  readonly key: string
  /** A UUID that no other call of `begin` has, except a repeated one. */
  readonly token: string
}

export type DedupLeaseResult =
  | { readonly status: 'won' }
  /** The claim was completed, and its retention has not passed. */
  | {
      readonly status: 'done'
      readonly firstProcessedAt: Date
      readonly contentHash: Uint8Array | undefined
      readonly result: string | undefined
    }
  /** Another owner holds the lease, which ends in `remainingMs` unless its owner extends it. */
  | { readonly status: 'in-flight'; readonly remainingMs: number }

/**
 * The claims that commit before their handlers run. Each call is its own transaction at READ COMMITTED, and may be repeated after a
 * lost answer. All times are by the database's clock. A claim whose lease or retention has passed is as good as none.
 */
export interface DedupLeaseStore {
  /** Claims a key for `leaseMs`. Of concurrent calls for one key, one wins. `contentHash` has 32 bytes. */
  begin(
    owner: DedupOwner,
    claim: { readonly leaseMs: number; readonly contentHash?: Uint8Array | undefined },
  ): Promise<DedupLeaseResult>
  /**
   * Completes a claim whose lease has not passed. `retentionMs` counts from now. A repeated call changes nothing.
   *
   * @returns `false` if the owner does not hold the claim.
   */
  complete(
    owner: DedupOwner,
    how: { readonly retentionMs: number; readonly result: string | undefined },
  ): Promise<boolean>
  /** Removes the claim. @returns `false` if the owner does not hold the lease. */
  release(owner: DedupOwner): Promise<boolean>
  /** Lets the lease end `leaseMs` from now. @returns `false` if the owner does not hold the lease. */
  extend(owner: DedupOwner, leaseMs: number): Promise<boolean>
}
