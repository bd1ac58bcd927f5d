import type { Session } from './session.ts'

/** An outbox message, checked and encoded, as the table holds it. */
export interface StoredMessage {
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

/** One that may have to wait. */
export interface NewStoredMessage extends StoredMessage {
  /** Not before this instant: it goes to the parked messages at once. */
  readonly deliverAt?: Date | undefined
}

/**
 * The outbox table, as producers see it. Rows are inserted and deleted, never updated.
 *
 * `append` stores all messages in the caller's transaction, by one statement, and those with a `deliverAt` by another;
 * those without are numbered in the order given.
 * `notify`: who listens is told when the transaction commits.
 * @throws {NotInTransactionError} outside a transaction; nothing was written.
 */
export interface OutboxStore {
  append(
    session: Session,
    messages: readonly NewStoredMessage[],
    options?: { readonly notify: boolean },
  ): Promise<void>
}
