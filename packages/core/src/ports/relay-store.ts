import type { Lease } from './lease-store.ts'
import type { EncodedMessage } from './outbox-store.ts'

export interface BacklogMessage extends EncodedMessage {
  readonly topic: string
  /** The number of the message in its shard's outbox, or its place among the parked messages. Exact beyond 2^53. */
  readonly seq: bigint
  /**
   * The time of `outbox.publish`, in microseconds since 1970. After a failover, a restore or a TRUNCATE, a server may
   * assign a number a second time, but never the same number at the same microsecond.
   */
  readonly stamp: number
  readonly createdAt: Date
  /** The number of attempts; 0 for messages in the outbox. */
  readonly attempts: number
  /** The errors of the last attempts, as {@link Refusal.errors} stored them; only for parked messages. */
  readonly errors: string | undefined
  /** Whether the message has a place in the order of its key. A message that has no key, or was scheduled, has none. */
  readonly ordered: boolean
  /** Whether the message is in the outbox and parked messages of its key come before it. */
  readonly blocked: boolean
  /** Why the row cannot be decoded, if it cannot: it was written by hand. Such a message is never published. */
  readonly undecodable: string | undefined
}

/** Identifies one row, even on a server that assigns the same numbers again. */
export type BacklogRow = Pick<BacklogMessage, 'seq' | 'stamp'>

export interface ReadLimits {
  readonly messages: number
  readonly bytes: number
}

/** A message that was refused, or that was in flight when its relay died, and is not published for now. */
export interface Refusal {
  readonly row: BacklogRow
  /** The number of attempts, the last one included. */
  readonly attempts: number
  /** The reason for the refusal, with its causes. Any text: the store replaces what the database cannot hold. */
  readonly error: string
  /**
   * The last ten errors as JSON, `[{ "at", "attempt", "error" }]`, the newest last; `undefined` leaves the stored
   * errors.
   */
  readonly errors: string | undefined
  /**
   * The pause until the next attempt, counted from now by the database's clock; `undefined` makes the message a dead
   * letter.
   */
  readonly retryInMs: number | undefined
  /**
   * Whether the message may have crashed its relay. From then on only `readSuspect` returns the message, not `readDue`.
   */
  readonly suspect: boolean
}

export interface OutboxSettlement {
  readonly accepted: readonly BacklogRow[]
  readonly refused: readonly Refusal[]
  /** Messages that wait behind a parked message of their key. */
  readonly behind: readonly { readonly row: BacklogRow; readonly suspect: boolean }[]
}

export interface ParkedSettlement {
  readonly accepted: readonly BacklogRow[]
  readonly refused: readonly Refusal[]
  /**
   * Keys that are no longer blocked, each with its last settled place: the key's first message after that place is due
   * now.
   */
  readonly released: readonly { readonly key: string; readonly after: bigint }[]
}

/** A shard that has messages to publish. */
export interface ShardWork {
  readonly shard: number
  /** Whether parked messages are due, suspects included. */
  readonly due: boolean
}

/**
 * The outbox and its parked messages, as the owner of a shard's lease sees them.
 *
 * - `read` is a plain consistent read of the oldest messages of a shard, in the order of their numbers. A read takes no
 *   locks and waits for no transaction. There is no cursor: the next read finds a message that commits late. `read`
 *   returns at most `messages` messages and stops before their payloads exceed `bytes`, but returns at least one
 *   message if there is one. The same snapshot shows which of their keys have parked messages.
 * - `readDue` reads parked messages that are due and are not suspects, the messages of one key in the order of their
 *   places. A message that was refused before is returned alone. A message that was released after its predecessor is
 *   returned with the messages that wait behind it, up to the first suspect.
 * - `readSuspect` reads the first suspect that is due and comes first in its key.
 * - Each settlement is one short transaction, fenced by the lease's term, that never waits for a producer's open
 *   transaction. A settlement deletes exactly the accepted messages, and parks or dead-letters the refused ones. Every
 *   statement that deletes, moves or changes a row identifies the row by its number and its stamp together, so that a
 *   settlement never touches a newer message with the same number. `settle` moves messages out of the outbox, and gives
 *   waiting messages places in the order of the outbox. A message whose row no longer exists is skipped.
 *   @throws {LeaseLostError} when the lease has expired or has another term. Nothing was changed.
 *   @throws {DatabaseUnavailableError} when there was no answer. The settlement may have been applied, or may still be
 *     applied later. The caller must give up the lease, so that the next term begins after the settlement.
 *   @throws {SettlementError} when a policy or a trigger kept rows from being deleted. The other rows are settled.
 *     After any other error nothing was changed, and the caller may repeat the settlement.
 */
export interface RelayStore {
  /**
   * A number that grows when the store detects that it talks to another server, or that the server's data went back in
   * time. A caller must then discard everything that it remembers about the server. The store detects the change no
   * later than with the first answer that would otherwise be wrong.
   */
  readonly generation: number
  read(shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]>
  readDue(lease: Lease, shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]>
  readSuspect(shard: number, limits: ReadLimits): Promise<BacklogMessage | undefined>
  /**
   * Marks parked messages of the shard as suspects: the messages with places from `from` to `to` that are due or wait
   * for another message of their key.
   *
   * @throws the same errors as a settlement.
   */
  suspectParked(
    lease: Lease,
    shard: number,
    places: { readonly from: bigint; readonly to: bigint },
  ): Promise<void>
  settle(lease: Lease, shard: number, settlement: OutboxSettlement): Promise<void>
  settleParked(lease: Lease, shard: number, settlement: ParkedSettlement): Promise<void>
  /**
   * Makes the first message of each blocked key due again if no message of the key is due, because the head of the key
   * was deleted by hand. The cost does not depend on the number of waiting messages.
   *
   * @returns the number of keys that are no longer blocked.
   * @throws the same errors as a settlement.
   */
  healKeys(lease: Lease, shard: number): Promise<number>
  /**
   * Returns the given shards that have messages to publish. One round trip, whose cost does not depend on the backlog.
   */
  work(shards: readonly number[]): Promise<readonly ShardWork[]>
  /**
   * Records a note about the messages in flight if the lease is still held under its term; `undefined` removes the note.
   *
   * @returns whether the lease is still held.
   */
  note(lease: Lease, inFlight: string | undefined): Promise<boolean>
  /**
   * Reports that all messages that were in flight when the previous owner died are settled: resets the count of crashes
   * and removes the note.
   */
  survived(lease: Lease): Promise<void>
}
