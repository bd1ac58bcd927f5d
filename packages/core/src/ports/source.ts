import type { InboxMessage, MessageIdentity } from '../messages/messages.ts'
import type { Session } from './session.ts'

/**
 * The queue from which a consumer receives its deliveries: a queue of a broker, or a stored queue. Each broker has one
 * implementation. Everything else, such as retries, order and stopping, is the task of the consumer.
 */
export interface Source<P = unknown> {
  /** The name in logs and events, such as `'rabbitmq orders'`. Never an address. */
  readonly name: string
  readonly traits: SourceTraits
  /** The kind of broker in spans and metrics, such as `rabbitmq`. */
  readonly system?: string | undefined
  /** The queue, topic or stream in spans and metrics, if all messages come from one. */
  readonly destination?: string | undefined
  /**
   * Connects, and returns when deliveries can be received.
   *
   * @param how `prefetch` limits the number of deliveries that are unsettled at a time. `failed` is called with errors that
   *   no call reports, such as a lost connection. A source with `maxDeliveries` calls `deadLettered` for each message that it has
   *   made a dead letter instead of delivering the message again. `lost` is called for each delivery that the source has lost with
   *   its connection before `receive` returned the delivery, if the broker counts it: a lost delivery is no attempt. `warned` is
   *   called with a sentence about what the source cannot do, and what to change: the consumer works without it.
   * @throws {BrokerUnavailableError | DatabaseUnavailableError} when it cannot connect; the consumer tries again.
   */
  open(how: {
    readonly prefetch: number
    readonly failed: (error: unknown) => void
    readonly deadLettered?: ((dead: DeadLettered<P>) => void) | undefined
    readonly lost?: ((delivery: Delivery<P>) => void) | undefined
    readonly warned?: ((text: string) => void) | undefined
  }): Promise<OpenSource<P>>
}

/** A message that a source has made a dead letter by itself. */
export interface DeadLettered<P = unknown> {
  readonly message: InboxMessage<P>
  /** How often the message was delivered, from 1. */
  readonly deliveries: number
  /** A stored queue gives a `PermanentError` with the error that the dead letter keeps. */
  readonly error: unknown
}

/** The abilities of a broker. */
export interface SourceTraits {
  /** Whether `retry` keeps the delay itself. Otherwise the consumer holds the delivery during the delay. */
  readonly delays: boolean
  /**
   * Whether deliveries are counted across processes, so that a message that crashes its process is recognized.
   * `'per-delivery'`: the source does not know this before it has received, and each delivery shows it as `isCounted`.
   */
  readonly countsDeliveries: boolean | 'per-delivery'
  /** Whether `reject` moves the message to a place where operators can find it. Otherwise the consumer needs `deadLetters`. */
  readonly keepsRejected: boolean
  /** Whether no other message of a key is delivered while a delivery of the key is unsettled, or waits after `retry`. */
  readonly ordersKeys: boolean
  /** Whether deliveries have `settleIn`. A delivery that was accepted by `settleIn` needs no `accept`. */
  readonly settlesInTransaction: boolean
  /**
   * How long a delivery may be unsettled before the broker takes it back, also when the connection is lost. `undefined`: as
   * long as the connection lasts.
   */
  readonly leaseMs: number | undefined
  /**
   * Whether one consumer at a time receives, in the order of the queue. The consumer then never gives up the order of a key: it
   * holds a message that has a key until the next attempt, however long that takes. @default false
   */
  readonly isExclusive?: boolean | undefined
  /** The number of deliveries after which the source makes a message a dead letter. @default never */
  readonly maxDeliveries?: number | undefined
}

/** An open connection to a source. */
export interface OpenSource<P = unknown> {
  /**
   * Whether the source stays open when `receive` rejects. The consumer then keeps its deliveries, and calls `receive` again
   * after a pause. Otherwise, and when the source has called `failed`, the consumer closes the source and opens it again.
   * @default false
   */
  readonly keepsDeliveries?: boolean | undefined
  /**
   * Waits for at least one delivery and returns at most `limit` of them. Resolves with an empty list when the signal is aborted.
   *
   * @throws when the connection is lost; the consumer then opens the source again, unless the source `keepsDeliveries`.
   */
  receive(limit: number, how: { readonly signal: AbortSignal }): Promise<readonly Delivery<P>[]>
  /**
   * Called when the consumer stops, before it returns the deliveries that have not begun: the source should take no more
   * messages from the broker, so that other consumers get what is returned. Deliveries are settled until `close`.
   */
  stopReceiving?(): void
  /**
   * Returns the unsettled deliveries to the broker and disconnects. These deliveries are `lost`, and are not counted if the
   * broker supports that. When `signal` is aborted, the time for this is over: a source that can disconnects at once.
   */
  close(how?: { readonly signal?: AbortSignal | undefined }): Promise<void>
}

/** A message as its source has received it. */
export interface ReceivedMessage extends MessageIdentity {
  readonly bytes: Uint8Array
  /** Without it, the message was received without a content type. */
  readonly contentType?: string | undefined
  /** How the bytes are encoded in addition to their content type, such as `'gzip'`. */
  readonly contentEncoding?: string | undefined
}

/**
 * One delivery of a message, which the consumer settles once: it accepts, retries or rejects the message. If a delivery is
 * settled several times, only the first settlement counts. After `lost`, a settlement resolves and changes nothing.
 */
export interface Delivery<P = unknown> {
  /**
   * The message. Its `id` is empty if the message has none: then the key that the inbox, or without an inbox the consumer,
   * extracts from the message stands in as its id.
   */
  readonly message: InboxMessage<P>
  /**
   * Returns the message as it was received, in objects that no handler has had: decoded again. The consumer calls this method
   * before each attempt but the first. Without this method, the consumer copies the plain objects, arrays and bytes of
   * `message` before the first attempt, and shares all other objects between the attempts.
   */
  decodeAgain?(): InboxMessage<P>
  /**
   * The message as it was received, whatever a handler has changed in `message` since. A dead letter that the consumer publishes
   * has these bytes, this content type and encoding, and these headers. Without `body`, the dead letter has `message` as it is
   * then, with a payload that the consumer has encoded again: as JSON, text or bytes.
   */
  readonly body?: ReceivedMessage | undefined
  /** The error of a message that cannot be decoded. `message` then contains only the parts that could be read. */
  readonly undecodable?: unknown
  /** The ordering key. */
  readonly key: string | undefined
  /** The number of deliveries, including this delivery. 2 if the broker reports only that this is a redelivery. */
  readonly deliveries: number
  /**
   * With the trait `countsDeliveries: 'per-delivery'`, whether `deliveries` is a count across processes; `undefined` if this
   * delivery does not show it.
   */
  readonly isCounted?: boolean | undefined
  /** Whether the message may crash its process, so that it is handled while no other delivery is. @default false */
  readonly isSuspect?: boolean | undefined
  /** Aborted when the broker has taken back the delivery. */
  readonly lost: AbortSignal
  /**
   * Sets the listener that is called once after `lost` is aborted, or at once if `lost` is aborted already. For sources that
   * create the signal of a delivery only when it is read. Without this method, the consumer listens to `lost`.
   */
  onLost?(listener: () => void): void
  /**
   * Accepts the message, which was handled and is not delivered again. Resolves when the broker has processed the acceptance.
   *
   * @param how `recorded` says that a redelivery would be recognized as a duplicate, so that the promise may resolve while
   *   the acceptance is still in flight. `beforeHandling` says that the message is handled afterwards, at most once: the promise
   *   must not resolve before the acceptance is final. @default false
   */
  accept(how?: {
    readonly recorded?: boolean | undefined
    readonly beforeHandling?: boolean | undefined
  }): Promise<void>
  /**
   * Lets the message be delivered again after `delayMs`.
   *
   * @param how `counted` says whether this delivery counts. `stopping` says that the consumer closes the source next: the source
   *   may leave the return to `close`, if that keeps the order of the key. @default false
   */
  retry(how: {
    readonly delayMs: number
    readonly error: unknown
    readonly counted: boolean
    readonly stopping?: boolean | undefined
  }): Promise<void>
  /**
   * Keeps the message outside of the queue for at least `delayMs`, and then lets it be delivered again, behind the messages that
   * are in the queue then. For sources without the trait `delays`: consumers hold a delivery for its next attempt while half of
   * their room is free, and otherwise call this method.
   *
   * @param how `counted` says whether this delivery counts. `deliveries` is the number of deliveries that count up to now: the
   *   next delivery has one more.
   * @returns whether the delivery is settled. `false`: the source cannot keep the message now, and the consumer holds it.
   */
  postpone?(how: {
    readonly delayMs: number
    readonly error: unknown
    readonly counted: boolean
    readonly deliveries: number
  }): Promise<boolean>
  /**
   * Rejects a message that can never be handled: it moves to the place where the broker keeps rejected messages.
   *
   * @param how `error` is the reason, which is kept with the message where that is possible. `deliveries` is the number of
   *   deliveries as the consumer has counted them. @default the `deliveries` of this delivery. `id` is the id of the message, also
   *   if its key stands in for a missing id.
   * @throws {PermanentError} when the place refuses this message for good. The delivery remains unsettled.
   * @throws {RetryLaterError | BrokerUnavailableError} when the place refuses the message for now. The delivery remains unsettled,
   *   and the consumer rejects it again after a pause.
   */
  reject(how: {
    readonly error: unknown
    readonly deliveries?: number | undefined
    readonly id?: string | undefined
  }): Promise<void>
  /** Extends the lease to `leaseMs` from now. Present if the source has the trait `leaseMs`. */
  extend?(leaseMs: number): Promise<void>
  /**
   * Accepts the delivery when the given transaction commits. After a rollback the delivery is unsettled again, and can be
   * settled in any way. Present if the source has the trait `settlesInTransaction`.
   *
   * @throws {ReceiptExpiredError} when another consumer may have received the message; the transaction must roll back.
   */
  settleIn?(tx: unknown): Promise<void>
  /**
   * Like `settleIn`, in a transaction that txbox has opened: its first statement may be sent together with BEGIN, and
   * deliveries that are settled in the same tick may be settled by one statement. Without this method, consumers call
   * `settleIn`.
   *
   * @param session the session of the same transaction.
   */
  settleInSession?(session: Session): Promise<void>
  /** Called after the consumer has committed the transaction in which it settled the delivery. */
  committed?(): void
}
