import type { Lease } from './lease-store.ts'
import type { StoredMessage } from './outbox-store.ts'

/** A message in the backlog. */
export interface BacklogMessage extends StoredMessage {
  /** Its number in the shard's outbox, or its place among the parked. Exact beyond 2^53. */
  readonly seq: bigint
  /** Where its row lay when it was read, where that is a way to find it; nobody else's business. */
  readonly address: number | undefined
  readonly createdAt: Date
  /** How often it was tried; 0 for whatever is in the outbox. */
  readonly attempts: number
  /** It has a place in the order of its key: one without a key, or that was scheduled, has none. */
  readonly ordered: boolean
  /** In the outbox, and parked messages of its key come first. */
  readonly blocked: boolean
  /** Why it cannot be read, when it cannot: somebody wrote the row by hand. Never published. */
  readonly undecodable: string | undefined
}

export interface ReadLimits {
  readonly messages: number
  readonly bytes: number
}

/** A message that was tried and may not go now. */
export interface Refusal {
  /** Of the outbox, or the place of one that is parked. */
  readonly seq: bigint
  /** How often it has been tried now. */
  readonly attempts: number
  readonly error: string
  /** From the database's now; `undefined` makes it a dead letter. */
  readonly retryInMs: number | undefined
}

/** What became of messages of the outbox. */
export interface Settlement {
  readonly accepted: readonly Pick<BacklogMessage, 'seq' | 'address'>[]
  readonly refused: readonly Refusal[]
  /** They wait behind a parked message of their key. */
  readonly behind: readonly bigint[]
}

/** What became of parked messages. */
export interface ParkedSettlement {
  readonly accepted: readonly bigint[]
  readonly refused: readonly Refusal[]
  /** Keys that go on, each with the last place of it that is through: the first after that is due now. */
  readonly released: readonly { readonly key: string; readonly after: bigint }[]
}

/** A shard with something to do. */
export interface ShardWork {
  readonly shard: number
  /** Parked messages are due. */
  readonly due: boolean
}

/**
 * The outbox and its parked messages, as the owner of a shard's lease sees them.
 *
 * - `read` is a plain consistent read of the oldest messages of a shard, in the order of their numbers. It takes no
 *   locks and waits for nobody. No cursor is kept: a message that commits late is simply still there. It returns at
 *   most `messages`, and stops before their payloads exceed `bytes`, but returns at least one when there is one. In the
 *   same snapshot it looks which of their keys have parked messages.
 * - `readDue` reads parked messages that are due, those of one key in the order of their places: one that was refused
 *   before comes alone; one that was released after its predecessor comes with those that wait behind it.
 * - Each settlement is one short transaction, fenced by the lease's term, that never waits for a producer's open
 *   transaction: it deletes exactly what was accepted, by number, and parks or buries what was refused. `settle` moves
 *   messages out of the outbox, and numbers those that wait in the order of the outbox. A message that has gone
 *   meanwhile is left out.
 *   @throws {LeaseLostError} when the lease is no longer this one: nothing was changed.
 *   Any other error leaves open whether it happened, or is still going to: the lease has to be given up, so that the
 *   next term begins when it is over.
 */
export interface RelayStore {
  read(shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]>
  readDue(lease: Lease, shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]>
  settle(lease: Lease, shard: number, settlement: Settlement): Promise<void>
  settleParked(lease: Lease, shard: number, settlement: ParkedSettlement): Promise<void>
  /** Those of these shards that have something to do. One round trip; no count, so that it costs the same at any backlog. */
  work(shards: readonly number[]): Promise<readonly ShardWork[]>
}
