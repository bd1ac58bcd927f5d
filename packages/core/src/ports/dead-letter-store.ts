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
  /** How often it was tried. */
  readonly attempts: number
  /** Why it was refused last. */
  readonly error: string
  /** Who put it back the last time, and when; absent for one that never was, or so long ago that the record has gone. */
  readonly redriven?: { readonly at: Date; readonly by: string }
}

/** Which dead letters are meant: those that match all that is given. */
export interface DeadLetterFilter {
  readonly ids: readonly string[] | undefined
  readonly topic: string | undefined
  readonly type: string | undefined
  readonly key: string | undefined
  /** Only those whose id comes after this one. */
  readonly after: string | undefined
}

/**
 * The parked messages that gave up. All go in the order of their ids, at most `limit` of them at a time.
 *
 * - `redrive` puts them back, once however often and by however many it is asked: with no attempts counted, due now, and
 *   before all messages of their key that have been parked after them. Who did it, and when, is written down in the same
 *   transaction.
 * - `discard` deletes them.
 */
export interface DeadLetterStore {
  list(filter: DeadLetterFilter, limit: number): Promise<readonly DeadLetter[]>
  redrive(filter: DeadLetterFilter, limit: number, by: string): Promise<readonly DeadLetter[]>
  discard(filter: DeadLetterFilter, limit: number): Promise<readonly DeadLetter[]>
}
