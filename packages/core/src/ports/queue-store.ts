import type { NewStoredMessage, StoredMessage } from './outbox-store.ts'
import type { Session } from './session.ts'

/** A message of a queue for the time of one receive. */
export interface QueueReceipt {
  /** The number of the message in the table, which is its place in the order of its key. Exact beyond 2^53. */
  readonly place: bigint
  /** The UUID of the receive that has the message. No two receives have the same one. */
  readonly receipt: string
  /** Whether the message has a place in the order of its key. A message that has no key, or was scheduled, has none. */
  readonly ordered: boolean
}

/** A message that `receive` hands out. The topic is the name of the queue. */
export interface ReceivedMessage extends StoredMessage, QueueReceipt {
  /** The number of receives, this one included; receives that were taken back are not counted. */
  readonly receives: number
  /** The time of `send`, by the database's clock. */
  readonly createdAt: Date
  /** When the message becomes visible again, by the database's clock. */
  readonly visibleAt: Date
  /**
   * Whether its visibility timeout has passed twice in a row without an answer: the message may end the process that
   * handles it. It is alone in its answer, and must be handled alone.
   */
  readonly suspect: boolean
  /** Why the row cannot be decoded, if it cannot: it was written by hand. */
  readonly undecodable: string | undefined
}

export interface ReceiveRequest {
  readonly queue: string
  readonly limit: number
  readonly visibilityTimeoutMs: number
  /** A message that was received this often becomes a dead letter instead of being handed out. */
  readonly maxReceives: number
  /** Removes what is handed out, in the same transaction: at most once. */
  readonly remove: boolean
  /** Makes the receive repeatable. */
  readonly attempt: ReceiveAttempt | undefined
}

/** The identity of one receive that may be repeated when its answer was lost. */
export interface ReceiveAttempt {
  readonly id: string
  /** How long an answer is remembered, counted from the first receive with this id. */
  readonly retentionMs: number
}

export interface Giveback {
  /** The pause until the message is visible again, counted from now by the database's clock. */
  readonly delayMs: number
  /** The reason, as text; `undefined` leaves the last one. */
  readonly error: string | undefined
  /** Whether the receive counts; otherwise it is taken back. */
  readonly counted: boolean
}

/**
 * The table of the stored queues. One row is one message until it has been handled.
 *
 * - A message is received by at most one caller at a time, and of the messages of one key at most one is in flight: the
 *   first of the key. All times are by the database's clock.
 * - `receive` never waits for a lock, and holds none when it returns. A receive is committed by itself.
 * - A receipt is valid until its message becomes visible again, is given back, buried or settled. Calls with a receipt
 *   that is not valid change nothing, and their result says so.
 * - `settle` with a session is part of the caller's transaction and is rolled back with it. Of two concurrent calls with
 *   one receipt, the second waits for the first. While the transaction is open, nobody receives the message, even when its
 *   visibility timeout is over.
 * - Only receivers decide which message of a key is visible: senders insert visible messages, and a settlement of a
 *   message changes no other row. A key that has messages always has one that a receiver will look at.
 */
export interface QueueStore {
  /**
   * Receives messages in the order of their keys; a message without a key has no order. Messages that were received
   * `maxReceives` times become dead letters. A message whose visibility timeout has passed twice without an answer is
   * handed out alone.
   *
   * @throws {ReceiveAttemptError} when a repeated receive cannot give the same messages again.
   */
  receive(request: ReceiveRequest): Promise<readonly ReceivedMessage[]>
  /**
   * Marks messages as handled: they are never received again. By one statement for all messages that have a key, and one
   * for those without.
   *
   * @param session `undefined`: in a transaction of its own.
   * @returns for each receipt, whether it was valid.
   */
  settle(session: Session | undefined, receipts: readonly QueueReceipt[]): Promise<readonly boolean[]>
  /**
   * Extends the visibility timeout of the messages whose receipts are valid to `visibilityTimeoutMs` from now. A message
   * that a transaction has settled without having committed is left alone, and counts as extended.
   */
  extend(receipts: readonly QueueReceipt[], visibilityTimeoutMs: number): Promise<readonly boolean[]>
  /** Ends the receive: the message is visible again after a pause. @returns whether the receipt was valid. */
  giveBack(receipt: QueueReceipt, giveback: Giveback): Promise<boolean>
  /**
   * Makes the message a dead letter; the next message of its key becomes visible. @returns whether the receipt was valid.
   */
  bury(queue: string, receipt: QueueReceipt, error: string): Promise<boolean>
  /**
   * Removes at most `limit` messages that are not in flight, scheduled ones too. Dead letters stay. Also forgets the
   * deduplication ids of the queue.
   *
   * @returns the number of messages removed, and whether there may be more.
   */
  purge(queue: string, limit: number): Promise<{ readonly removed: number; readonly more: boolean }>
  /** Closes the store's own connections. The store stays usable. */
  close(): Promise<void>
}

/**
 * What senders see of the queues. `send` stores all messages in the caller's transaction, numbered in the order given,
 * by one statement for messages without `deliverAt` and another for those with it. With `notify`, listening receivers are
 * notified when the transaction commits.
 *
 * @throws {NotInTransactionError} outside a transaction; nothing was written.
 */
export interface QueueSender {
  send(
    session: Session,
    messages: readonly NewStoredMessage[],
    options?: { readonly notify?: boolean },
  ): Promise<void>
}
