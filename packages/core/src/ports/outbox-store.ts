import type { Session } from './session.ts'

/** An outbox message in the form in which the table stores it: checked and encoded. */
export interface EncodedMessage {
  readonly id: string
  /** 0 to SHARDS − 1. */
  readonly shard: number
  readonly topic: string
  readonly key: string | undefined
  readonly type: string | undefined
  readonly contentType: string
  readonly payload: Uint8Array
  readonly headers: Readonly<Record<string, string>>
  readonly correlationId: string | undefined
}

/** A message to store, which may have to wait for an instant. */
export interface MessageToStore extends EncodedMessage {
  /** The message is not published before this instant. Such a message is stored as a parked message. */
  readonly deliverAt?: Date | undefined
}

/**
 * The outbox table, as producers see it. Rows are inserted and deleted, never updated.
 *
 * `append` stores all messages in the caller's transaction: messages without `deliverAt` by one statement, numbered in
 * the order given, and messages with `deliverAt` by another. With `notify`, listening relays are notified when the
 * transaction commits.
 *
 * With `lockKeys`, a lock on each ordering key is taken before the first message gets its number, and is held until the
 * transaction ends, so that the numbers of a key are in the order of the commits. The keys of one call are locked in
 * one order. Only callers with `lockKeys` wait for one another. Scheduled messages lock no key.
 *
 * @throws {NotInTransactionError} outside a transaction; nothing was written.
 */
export interface OutboxStore {
  append(
    session: Session,
    messages: readonly MessageToStore[],
    options?: { readonly notify?: boolean; readonly lockKeys?: boolean },
  ): Promise<void>
}
