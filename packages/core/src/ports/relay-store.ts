import type { Lease } from './lease-store.ts'
import type { StoredMessage } from './outbox-store.ts'

/** A message in the backlog. */
export interface BacklogMessage extends StoredMessage {
  /** Its number in the shard's outbox, or its place among the parked. Exact beyond 2^53. */
  readonly seq: bigint
  /**
   * When the message was published, in microseconds since 1970. A server hands out the same number twice after a failover, a
   * restore or a TRUNCATE, but never the same number at the same microsecond.
   */
  readonly stamp: number
  /** Where its row lay when it was read, where that is a way to find it; nobody else's business. */
  readonly address: number | undefined
  readonly createdAt: Date
  /** How often it was tried; 0 for whatever is in the outbox. */
  readonly attempts: number
  /** The errors of its last attempts, as {@link Refusal.errors} stored them; of parked messages only. */
  readonly errors: string | undefined
  /** It has a place in the order of its key: one without a key, or that was scheduled, has none. */
  readonly ordered: boolean
  /** In the outbox, and parked messages of its key come first. */
  readonly blocked: boolean
  /** Why it cannot be read, when it cannot: somebody wrote the row by hand. Never published. */
  readonly undecodable: string | undefined
}

/** Identifies one row, even on a server that hands out the same numbers again. */
export type BacklogRow = Pick<BacklogMessage, 'seq' | 'stamp' | 'address'>

export interface ReadLimits {
  readonly messages: number
  readonly bytes: number
}

/** A message that was tried, or was in flight when its relay died, and may not go now. */
export interface Refusal {
  readonly row: BacklogRow
  /** How often it has been tried now. */
  readonly attempts: number
  /** The reason for the refusal, with its causes. Any text: the store makes it a text that the database can hold. */
  readonly error: string
  /** The last ten errors as JSON, `[{ "at", "attempt", "error" }]`, the newest last; `undefined` leaves what is stored. */
  readonly errors: string | undefined
  /** From the database's now; `undefined` makes it a dead letter. */
  readonly retryInMs: number | undefined
  /** The message may have killed its relay: only `readSuspect` reads it, and no longer `readDue`. */
  readonly suspect: boolean
}

/** What became of messages of the outbox. */
export interface Settlement {
  readonly accepted: readonly BacklogRow[]
  readonly refused: readonly Refusal[]
  /** Messages that wait behind a parked message of their key. */
  readonly behind: readonly { readonly row: BacklogRow; readonly suspect: boolean }[]
}

/** What became of parked messages. */
export interface ParkedSettlement {
  readonly accepted: readonly BacklogRow[]
  readonly refused: readonly Refusal[]
  /** Keys that go on, each with the last place of it that is through: the first after that is due now. */
  readonly released: readonly { readonly key: string; readonly after: bigint }[]
}

/** A shard with something to do. */
export interface ShardWork {
  readonly shard: number
  /** Whether parked messages are due, suspects included. */
  readonly due: boolean
}

/**
 * The outbox and its parked messages, as the owner of a shard's lease sees them.
 *
 * - `read` is a plain consistent read of the oldest messages of a shard, in the order of their numbers. It takes no
 *   locks and waits for nobody. No cursor is kept: a message that commits late is simply still there. It returns at
 *   most `messages`, and stops before their payloads exceed `bytes`, but returns at least one when there is one. In the
 *   same snapshot it looks which of their keys have parked messages.
 * - `readDue` reads parked messages that are due and no suspects, the messages of one key in the order of their places: a
 *   message that was refused before comes alone; a message that was released after its predecessor comes with the
 *   messages that wait behind it, up to the first suspect.
 * - `readSuspect` reads the first suspect that is due and comes first in its key.
 * - Each settlement is one short transaction, fenced by the lease's term, that never waits for a producer's open
 *   transaction: it deletes exactly what was accepted, and parks or buries what was refused. A row is named by its
 *   number and its stamp together, in every statement that deletes, moves or changes it: a settlement never touches a
 *   newer message that got the same number. `settle` moves messages out of the outbox, and numbers those that wait in
 *   the order of the outbox. A message that has gone meanwhile is left out.
 *   @throws {LeaseLostError} when the lease is no longer this one: nothing was changed.
 *   @throws {DatabaseUnavailableError} when there was no answer: the settlement may have happened, or is still going
 *   to. The lease has to be given up, so that the next term begins when it is over.
 *   @throws {SettlementError} when rows are still there although they were to go, because a policy or a trigger keeps
 *   them: what could be settled is settled. Any other error is an answer, too: nothing was changed. The caller may make
 *   the same settlement again.
 */
export interface RelayStore {
  /**
   * Grows whenever the store notices that the server is another one, or has gone back in time: whatever a caller remembers
   * of the server is void then. A store notices at the latest with the next answer that would be wrong otherwise.
   */
  readonly generation: number
  read(shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]>
  readDue(lease: Lease, shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]>
  readSuspect(shard: number, limits: ReadLimits): Promise<BacklogMessage | undefined>
  /**
   * Marks parked messages of the shard as suspects: those with places from `from` to `to` that are due or wait for
   * another of their key.
   *
   * @throws as a settlement.
   */
  suspectParked(
    lease: Lease,
    shard: number,
    places: { readonly from: bigint; readonly to: bigint },
  ): Promise<void>
  settle(lease: Lease, shard: number, settlement: Settlement): Promise<void>
  settleParked(lease: Lease, shard: number, settlement: ParkedSettlement): Promise<void>
  /**
   * Makes the first message of each blocked key due again if no message of the key is due: the head of the key was deleted
   * by hand. A million waiting messages do not make this more expensive.
   *
   * @returns the number of keys that go on.
   * @throws as a settlement.
   */
  healKeys(lease: Lease, shard: number): Promise<number>
  /** Those of these shards that have something to do. One round trip; no count, so that it costs the same at any backlog. */
  work(shards: readonly number[]): Promise<readonly ShardWork[]>
  /**
   * Notes what is in flight under a lease that is still held under its term; `undefined` takes the note back.
   *
   * @returns whether the lease is still held.
   */
  note(lease: Lease, inFlight: string | undefined): Promise<boolean>
  /** Everything that was in flight when the last owner died is through: resets the count of crashes and removes the note. */
  survived(lease: Lease): Promise<void>
}
