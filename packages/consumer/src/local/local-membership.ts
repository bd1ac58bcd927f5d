import type { Lease, LocalStore } from '@txbox/core/ports'
import type { PollIntervals } from '@txbox/core/internal'

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

/** The hub of a process and pool calls these functions of a local consumer. None of them may throw. */
export interface LocalListener {
  /** A poll follows at once: `found` reports the rows that are there. */
  acquired(held: LocalHeldShard): void
  /** From now on nothing may begin under the lease. Handlers that run still end. */
  lost(held: LocalHeldShard, reason: 'expired' | 'taken' | 'stopped'): void
  /**
   * Rows were found by a poll, or may be there because the server is another one. Rows whose handlers run are found by each poll.
   */
  found(held: LocalHeldShard, what: { readonly waiting: boolean; readonly due: boolean }): void
  failed(error: unknown): void
  /** The connection that listens for new messages is refused or lost: until it is replaced, they are found by polling. */
  notListening(error: unknown): void
}

/** How a local consumer joins the hub of its process and pool. */
export interface LocalJoin {
  readonly consumer: string
  /** The types that the consumer has handlers for. */
  readonly types: readonly string[]
  readonly listener: LocalListener
  readonly leaseMs: number
  readonly pollMs: PollIntervals
  /** Whether the process listens for new messages, where it can. */
  readonly listens: boolean
}

/** The place of one local consumer in the hub. */
export interface LocalMembership {
  /**
   * The store that the consumers of the process and pool share. Statements outside of the transactions of handlers wait for
   * each other there, so that the loops of all consumers together use few connections.
   */
  readonly store: LocalStore
  readonly held: readonly LocalHeldShard[]
  /**
   * Looks for rows of the held shards at once, and reports them by `found` before it resolves.
   *
   * @throws what the database answers. `failed` is not called.
   */
  look(): Promise<void>
  /** Must be called when the database reports that this process no longer holds the lease. */
  taken(held: LocalHeldShard): void
  /** Must be called when messages were handled, with their number: the next poll comes sooner. */
  busy(handled: number): void
  /**
   * Acquires no more shards, and releases each as soon as it has no work. Resolves when all are released, or shortly after the signal
   * is aborted: then the work of the others is cut off, which counts as a crash.
   */
  leave(signal: AbortSignal): Promise<void>
}
