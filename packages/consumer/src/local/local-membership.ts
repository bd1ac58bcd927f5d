import type { Lease } from '@txbox/core/ports'

/** A shard of a local consumer whose lease this process holds. */
export interface LocalHeldShard {
  readonly consumer: string
  readonly shard: number
  readonly lease: Lease
  /** How many owners in a row died, or were cut off, while they held the shard. */
  readonly crashes: number
  /** Whether this process may still act as the owner. */
  readonly isTrusted: boolean
  /** Whether the shard will be released as soon as no handler of its messages runs: then no other message may begin. */
  readonly isLeaving: boolean
  /** Must be called when the first message of the shard is handed to the consumer, and when the last one has ended. */
  beginWork(): void
  endWork(): void
}

/** What a local consumer learns from the hub of its process and pool. None of the functions may throw. */
export interface LocalListener {
  acquired(held: LocalHeldShard): void
  /** From now on nothing may begin under the lease. Handlers that run still end. */
  lost(held: LocalHeldShard, reason: 'expired' | 'taken' | 'stopped'): void
  /** Rows were found by a poll, or may be there after a wake-up. */
  found(held: LocalHeldShard, what: { readonly waiting: boolean; readonly due: boolean }): void
  failed(error: unknown): void
}

/** The place of one local consumer in the hub. */
export interface LocalMembership {
  readonly held: readonly LocalHeldShard[]
  /** Looks for rows of the held shards at once. */
  look(): Promise<void>
  /** Must be called when the database reports that this process no longer holds the lease. */
  taken(held: LocalHeldShard): void
  /** Must be called when messages were found or handled: the next poll comes sooner. */
  busy(): void
  /** Acquires no more shards, and releases each as soon as it has no work. Resolves when all are released, or the signal is aborted. */
  leave(signal: AbortSignal): Promise<void>
}
