/** A parked message that gave up. */
export interface DeadLetter {
  readonly id: string
  readonly topic: string
  readonly type?: string
  readonly key?: string
  readonly contentType: string
  readonly correlationId?: string
  /** By the database's clock, at `publish`. */
  readonly createdAt: Date
  readonly deadAt: Date
  /** How often the message was tried. */
  readonly attempts: number
  /** Why it was refused last. */
  readonly error: string
  /** Who put it back the last time, and when; absent for one that never was, or so long ago that the record has gone. */
  readonly redriven?: { readonly at: Date; readonly by: string }
}

/**
 * A parked message that has not given up: the message was refused and is tried again, or waits behind another message
 * of its key.
 */
export interface ParkedMessage {
  readonly id: string
  readonly topic: string
  readonly type?: string
  readonly key?: string
  readonly contentType: string
  readonly correlationId?: string
  /** By the database's clock, at `publish`. */
  readonly createdAt: Date
  /** When the relay tries the message again; absent when the message waits behind another message of its key. */
  readonly dueAt?: Date
  /** How often the message was tried. */
  readonly attempts: number
  /** Why the message was refused last; empty for a message that was never tried. */
  readonly error: string
}

/** The payload of a dead letter or a parked message, with the fields that are needed to read the payload. */
export interface StoredPayload {
  readonly contentType: string
  /** The headers as stored: JSON. */
  readonly headers: string
  readonly payload: Uint8Array
}

/** A page begins behind this message. Several messages may have the same id; `place` tells them apart. */
export interface DeadLetterPosition {
  readonly id: string
  /** A whole number, as text. Absent: behind all messages of this id. */
  readonly place?: string | undefined
}

/** Selects dead letters or parked messages: those that match all of the given fields. */
export interface DeadLetterFilter {
  readonly ids: readonly string[] | undefined
  readonly topic: string | undefined
  readonly type: string | undefined
  readonly key: string | undefined
  /** Only messages behind this position. */
  readonly after: DeadLetterPosition | undefined
}

/** Messages in the order of their ids; messages of one id in the order of their places. */
export interface DeadLetterPage<M = DeadLetter> {
  readonly messages: readonly M[]
  /** Where the next page begins; absent when this page is the last one. */
  readonly next: DeadLetterPosition | undefined
}

/**
 * The parked messages that gave up, and those that have not. A page holds at most `limit` messages.
 *
 * - `redrive` puts dead letters back, each of them once, even when several callers ask: with no attempts counted, due now,
 *   and before all messages of their key that were parked after them. The same transaction records the time of the redrive
 *   and its operator.
 * - `discard` deletes dead letters.
 * - `discardParked` deletes messages that are parked and have not given up. Where such a message was the first of its
 *   key, the next message of that key becomes due in the same transaction. Messages that are scheduled and have never been
 *   tried are not touched.
 * - `payloads` reads the payloads of the dead letters of one id, or of the parked messages that have not given up, in the
 *   order of their places.
 */
export interface DeadLetterStore {
  list(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage>
  redrive(filter: DeadLetterFilter, limit: number, by: string): Promise<DeadLetterPage>
  discard(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage>
  listParked(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>>
  discardParked(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>>
  payloads(id: string, parked: boolean, limit: number): Promise<readonly StoredPayload[]>
}
