/** A message that the relay no longer tries to publish, or that a consumer no longer tries to handle. */
export interface DeadLetter {
  readonly id: string
  /** Absent if the message has only local consumers. */
  readonly topic?: string
  /** The local consumer at which the message is dead; absent for a message of the outbox or of a queue. */
  readonly consumer?: string
  readonly type?: string
  readonly key?: string
  readonly contentType: string
  readonly correlationId?: string
  /** The time of `publish`, by the database's clock. */
  readonly createdAt: Date
  readonly deadAt: Date
  readonly attempts: number
  /** The reason of the last refusal. */
  readonly error: string
  /**
   * The time and the operator of the last redrive. Absent if the message was never redriven, or if the record of the
   * redrive has expired.
   */
  readonly redriven?: { readonly at: Date; readonly by: string }
}

/** A message that was refused and will be tried again, or that waits behind such a message of its key. */
export interface ParkedMessage {
  readonly id: string
  /** Absent if the message has only local consumers. */
  readonly topic?: string
  /** The local consumer at which the message is parked; absent for a message of the outbox or of a queue. */
  readonly consumer?: string
  readonly type?: string
  readonly key?: string
  readonly contentType: string
  readonly correlationId?: string
  /** The time of `publish`, by the database's clock. */
  readonly createdAt: Date
  /** When the message is tried again; absent when the message waits behind another message of its key. */
  readonly dueAt?: Date
  readonly attempts: number
  /** The reason of the last refusal; empty for a message that was never tried. */
  readonly error: string
}

/** The payload of a dead letter or a parked message, with the fields that are needed to read the payload. */
export interface StoredPayload {
  readonly contentType: string
  /** The headers as stored: JSON. */
  readonly headers: string
  readonly payload: Uint8Array
}

/** A page begins after this message. `place` distinguishes messages that have the same id. */
export interface DeadLetterPosition {
  readonly id: string
  /** A whole number, as text. If absent, the page begins after all messages with this id. */
  readonly place?: string | undefined
  /** Whether the message is one of a local consumer, where a list contains both these and others. */
  readonly local?: boolean | undefined
}

/** Selects dead letters or parked messages: those that match all of the given fields. */
export interface DeadLetterFilter {
  readonly ids: readonly string[] | undefined
  readonly topic: string | undefined
  readonly type: string | undefined
  readonly key: string | undefined
  /** A local consumer: only messages of this consumer match. */
  readonly consumer?: string | undefined
  /** A text that the error of the last attempt contains, byte for byte. */
  readonly error?: string | undefined
  readonly after: DeadLetterPosition | undefined
}

/** Messages in the order of their ids; messages with the same id are in the order of their places. */
export interface DeadLetterPage<M = DeadLetter> {
  readonly messages: readonly M[]
  /** Where the next page begins; absent when this page is the last one. */
  readonly next: DeadLetterPosition | undefined
}

/**
 * The dead letters, and the parked messages that are still tried, of the outbox, of a stored queue or of the local consumers. A
 * page holds at most `limit` messages.
 *
 * - `redrive` puts dead letters back, each of them once, even when several callers do so concurrently. A redriven
 *   message has no attempts counted, is due now, and comes before all messages of its key that were parked after it.
 *   The same transaction records the time of the redrive and its operator.
 * - `discard` deletes dead letters.
 * - `discardParked` deletes parked messages that are not dead letters. If such a message was the first of its key, the
 *   next message of that key becomes due in the same transaction. Scheduled messages that have never been tried are not
 *   touched, and neither are messages that the handler of a local consumer has in flight.
 * - `retry` makes parked messages due now that wait for their next attempt. Messages that wait behind another message of their
 *   key, scheduled messages that have never been tried, and messages in flight are not touched. The result shows the messages
 *   as they were before.
 * - `newest` lists dead letters, the newest first, without a next page.
 * - `payloads` reads the payloads of the dead letters with one id, or of the parked messages with that id that are not
 *   dead letters, in the order of their places; with `consumer`, only those of a local consumer.
 * - `errors` reads the last errors of the same messages, in the same order.
 */
export interface DeadLetterStore {
  list(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage>
  redrive(filter: DeadLetterFilter, limit: number, by: string): Promise<DeadLetterPage>
  discard(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage>
  listParked(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>>
  discardParked(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>>
  retry(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>>
  newest(filter: DeadLetterFilter, limit: number): Promise<readonly DeadLetter[]>
  payloads(id: string, parked: boolean, limit: number, consumer?: string): Promise<readonly StoredPayload[]>
  errors(
    id: string,
    parked: boolean,
    limit: number,
    consumer?: string,
  ): Promise<readonly (readonly KeptError[])[]>
}

/** The error of one attempt. A message keeps its last ten. */
export interface KeptError {
  readonly at: Date
  readonly attempt: number
  readonly error: string
}
