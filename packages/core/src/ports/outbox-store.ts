import type { Session } from './session.ts'
import type { Notify } from './wake-ups.ts'

/** An outbox message in the form in which the table stores it: checked and encoded. */
export interface EncodedMessage {
  readonly id: string
  /** 0 to SHARDS − 1. */
  readonly shard: number
  /** `undefined` if the message has only local consumers. */
  readonly topic: string | undefined
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
  /**
   * The trace context of the producer: `traceparent`, or `traceparent;tracestate`. Reads return it as these headers. It is not
   * among `headers`.
   */
  readonly traceContext?: string | undefined
}

/**
 * The outbox table, as producers see it. Rows are inserted and deleted, never updated.
 *
 * `append` stores all messages in the caller's transaction: messages without `deliverAt` by one statement, numbered in
 * the order given, and messages with `deliverAt` by another. With `notify`, listening relays and local consumers are notified when
 * the transaction commits.
 *
 * With `lockKeys`, a lock on each ordering key is taken before the first message gets its number, and is held until the
 * transaction ends, so that the numbers of a key are in the order of the commits. The keys of one call are locked in
 * one order. Only callers with `lockKeys` wait for one another. Scheduled messages lock no key.
 *
 * With `subscribers`, each message is stored once in `outbox` if it has a topic, and once in `local_outbox` for each local consumer
 * that subscribes to its type (with `deliverAt` in `parked` and `local_parked`), with the same id, by message, then by consumer. If
 * a message has neither a topic nor a subscriber, nothing of the call is stored, and the transaction can still be used. With
 * `lockKeys` the locks of all messages are taken by a statement of their own, and the subscriptions are read by a later one.
 * Without `subscribers`, each message must have a topic.
 *
 * @throws {NotInTransactionError} outside a transaction; nothing was written.
 * @throws {InvalidMessageError} when a message has neither a topic nor a subscriber, unless `unrouted` is `'ignore'`. Names its
 *   type and the known ones.
 */
export interface OutboxStore {
  append(
    session: Session,
    messages: readonly MessageToStore[],
    options?: {
      readonly notify?: Notify | undefined
      readonly lockKeys?: boolean
      readonly subscribers?: Subscribers | undefined
    },
  ): Promise<void>
}

/** Which local consumers get a message. */
export interface Subscribers {
  /** The consumers of each type, as the outbox was created with them. */
  readonly given: ReadonlyMap<string, readonly string[]>
  /** Whether the rows of the table `subscriptions` count as well. The INSERT reads them itself. */
  readonly registered: boolean
  /** Whether a message that has neither a topic nor a subscriber is refused, or is not stored. */
  readonly unrouted: 'refuse' | 'ignore'
}
