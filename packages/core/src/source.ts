import type { InboxMessage } from './messages.ts'
import type { Session } from './ports/session.ts'

/**
 * Where a consumer takes its deliveries from: a queue of a broker, or a stored queue. One implementation a broker;
 * everything else, such as retries, order and stop, is the consumer's.
 */
export interface Source<P = unknown> {
  /** The name in logs and events, such as `'rabbitmq orders'`. Never an address. */
  readonly name: string
  readonly traits: SourceTraits
  /**
   * Connects, and returns when deliveries can be received.
   *
   * @param how `prefetch` bounds the deliveries that are out at a time. `failed` is called with errors that no call
   *   reports, such as a lost connection.
   * @throws {BrokerUnavailableError | DatabaseUnavailableError} when it cannot connect; the consumer tries again.
   */
  open(how: { readonly prefetch: number; readonly failed: (error: unknown) => void }): Promise<OpenSource<P>>
}

/** The abilities of a broker. */
export interface SourceTraits {
  /** Whether `retry` keeps the delay itself. Otherwise the consumer waits with the delivery in hand. */
  readonly delays: boolean
  /** Whether deliveries are counted across processes, so that a message that kills its process is recognized. */
  readonly countsDeliveries: boolean
  /** Whether `reject` puts the message where people can find it. Otherwise the consumer needs `deadLetters`. */
  readonly keepsRejected: boolean
  /** Whether no other message of a key is delivered while one of them is out, also after `retry`. */
  readonly ordersKeys: boolean
  /** Whether deliveries have `settleIn`. A delivery that was accepted so needs no `accept`. */
  readonly settlesInTransaction: boolean
  /**
   * How long a delivery is out before the broker takes it back, also when the connection is lost. `undefined`: while the
   * connection lasts.
   */
  readonly leaseMs: number | undefined
  /** The source makes a dead letter of a message after this many deliveries. @default never */
  readonly maxDeliveries?: number | undefined
}

/** An open connection to a source. */
export interface OpenSource<P = unknown> {
  /**
   * Waits for at least one delivery and returns at most `limit` of them. Resolves with none when the signal is aborted.
   *
   * @throws when the connection is lost; the consumer then opens the source again.
   */
  receive(limit: number, how: { readonly signal: AbortSignal }): Promise<readonly Delivery<P>[]>
  /** Gives back what is not settled, uncounted where the broker can, which then is `lost`, and disconnects. */
  close(): Promise<void>
}

/**
 * A message on loan, which is accepted, retried or rejected, once. Of several settlements only the first counts. After
 * `lost`, a settlement resolves and changes nothing.
 */
export interface Delivery<P = unknown> {
  readonly message: InboxMessage<P>
  /** Why the message cannot be decoded, if it cannot; `message` then has only what could be read. */
  readonly undecodable?: unknown
  /** The ordering key. */
  readonly key: string | undefined
  /** The number of deliveries, this one included. 2 where the broker knows only that it delivers again. */
  readonly deliveries: number
  /** Whether the message may end its process: it is handled with nothing else in hand. @default false */
  readonly isSuspect?: boolean | undefined
  /** Aborted when the broker has taken the delivery back. */
  readonly lost: AbortSignal
  /**
   * Handled: the message is not delivered again. Resolves when the broker knows.
   *
   * @param how `recorded` says that a redelivery would be recognized as a duplicate, so that the promise may resolve when
   *   the acceptance is on its way. @default false
   */
  accept(how?: { readonly recorded?: boolean | undefined }): Promise<void>
  /** Not handled: the message is delivered again after `delayMs`. `counted` says whether this delivery counts. */
  retry(how: { readonly delayMs: number; readonly error: unknown; readonly counted: boolean }): Promise<void>
  /** Never to be handled: the message goes where the broker keeps such messages. */
  reject(how: { readonly error: unknown }): Promise<void>
  /** Extends the lease to `leaseMs` from now. Present where `leaseMs` is a trait. */
  extend?(leaseMs: number): Promise<void>
  /**
   * Accepts the delivery in a transaction: when the transaction commits. After a rollback the delivery is as before, and
   * every settlement is possible. Present where the source settles in a transaction.
   *
   * @throws {ReceiptExpiredError} when another consumer may have the message; the transaction must roll back.
   */
  settleIn?(tx: unknown): Promise<void>
  /**
   * Like `settleIn`, in a transaction that txbox has opened: its first statement may travel with BEGIN, and deliveries that
   * are settled in the same tick may be settled by one statement. Without this method, consumers call `settleIn`.
   *
   * @param session the session of the same transaction.
   */
  settleInSession?(session: Session): Promise<void>
}
