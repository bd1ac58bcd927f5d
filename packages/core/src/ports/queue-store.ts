import type { MessageToStore, EncodedMessage } from './outbox-store.ts'
import type { Session } from './session.ts'
import type { Notify } from './wake-ups.ts'

/** Identifies a received message and the receive that it belongs to. */
export interface QueueReceipt {
  /**
   * The name of the queue. A condition of every statement, because a receipt may have been rewritten. All receipts of one call
   * are of one queue.
   */
  readonly topic: string
  /** The number of the message in the table, which is its place in the order of its key. Exact beyond 2^53. */
  readonly place: bigint
  /** The UUID of the receive that returned the message. It is unique for each receive. */
  readonly receipt: string
  /** Whether the message is part of the order of its key. A message without a key, or a scheduled one, is not. */
  readonly ordered: boolean
}

/** A message that `receive` hands out. The topic is the name of the queue. */
export interface QueueMessage extends EncodedMessage, QueueReceipt {
  readonly topic: string
  /** The number of receives, including this one. Receives that were given back with `counted: false` are not included. */
  readonly receives: number
  /** The time of `send`, by the database's clock. */
  readonly createdAt: Date
  /** When the message becomes visible again, by the database's clock. */
  readonly visibleAt: Date
  /**
   * Whether the visibility timeout of the message has passed twice in a row without a settlement, or once if
   * `maxReceives` is 2 or less: handling the message may crash the process. The message is returned alone, and must be
   * handled alone.
   */
  readonly suspect: boolean
  /** Why the row cannot be decoded, if it cannot, for example because it was edited by hand. */
  readonly undecodable: string | undefined
}

export interface ReceiveRequest {
  readonly queue: string
  readonly limit: number
  readonly visibilityTimeoutMs: number
  /** A message that was received this often becomes a dead letter instead of being handed out. */
  readonly maxReceives: number
  /** Whether the returned messages are removed by the same transaction, so that they are handled at most once. */
  readonly remove: boolean
  readonly attempt: ReceiveAttempt | undefined
  /**
   * Called for each message that this receive has made a dead letter, after the commit, with the error that the dead letter
   * shows. Not called by a receive with `attempt`.
   */
  readonly buried?: ((message: QueueMessage, error: string) => void) | undefined
}

/** Identifies one receive, so that it can be repeated when its answer was lost. */
export interface ReceiveAttempt {
  readonly id: string
  /** How long an answer is remembered, counted from the first receive with this id. */
  readonly retentionMs: number
}

export interface Giveback {
  /** The pause until the message is visible again, counted from now by the database's clock. */
  readonly delayMs: number
  /** The reason, as text; `undefined` keeps the previous one. */
  readonly error: string | undefined
  /** Whether the receive counts towards `maxReceives`. If not, the count is reduced by one again. */
  readonly counted: boolean
}

/**
 * The table of the stored queues. Each row is a message that has not been handled, or marks a handled message whose key
 * must be released.
 *
 * - A message is received by at most one caller at a time, and of the messages of one key at most one is in flight: the
 *   first of the key. All times are by the database's clock.
 * - `receive` never waits for a lock, and holds none when it returns. Each receive is a transaction of its own.
 * - A receipt is valid until its message becomes visible again, is given back, buried or settled. A call with a receipt
 *   that is not valid changes nothing, and reports that in its result; only `renew` makes one valid again.
 * - `settle` with a session is part of the caller's transaction and is rolled back with it. Of two concurrent calls
 *   with one receipt, the second waits for the first. While the transaction is open, no other receiver gets the
 *   message, even when its visibility timeout is over.
 * - Only receivers decide which message of a key is visible: senders insert visible messages, and a settlement of a
 *   message changes no other row. A key that has messages always has at least one row that a receiver will find.
 */
export interface QueueStore {
  /**
   * Receives messages in the order of their keys; a message without a key has no order. Messages that were received
   * `maxReceives` times become dead letters. A message whose visibility timeout has passed twice without an answer (once,
   * if `maxReceives` is 2) is handed out alone.
   *
   * @throws {ReceiveAttemptError} when a repeated receive cannot give the same messages again.
   */
  receive(request: ReceiveRequest): Promise<readonly QueueMessage[]>
  /**
   * Marks messages as handled: they are never received again. Sends one statement for all messages that are part of the
   * order of a key, and one for all others.
   *
   * @param session the caller's transaction; `undefined` settles in a transaction of its own.
   * @returns for each receipt, whether it was valid.
   */
  settle(session: Session | undefined, receipts: readonly QueueReceipt[]): Promise<readonly boolean[]>
  /**
   * Extends the visibility timeout of the messages whose receipts are valid to `visibilityTimeoutMs` from now. A
   * message that an open transaction has locked is not changed, and counts as extended while its receipt is valid.
   */
  extend(receipts: readonly QueueReceipt[], visibilityTimeoutMs: number): Promise<readonly boolean[]>
  /**
   * Like `extend`, but waits for a transaction that has settled the message, and also works for a receipt whose visibility
   * timeout is over, as long as no other receiver has taken the message and it was not put back. Only for a caller whose
   * own transaction had settled the message in time, and was rolled back.
   *
   * @returns whether the message still had the receipt.
   */
  renew(session: Session | undefined, receipt: QueueReceipt, visibilityTimeoutMs: number): Promise<boolean>
  /** Gives the message back: it becomes visible again after a pause. @returns whether the receipt was valid. */
  giveBack(receipt: QueueReceipt, giveback: Giveback): Promise<boolean>
  /** Makes the message a dead letter; the next message of its key becomes visible. @returns whether the receipt was valid. */
  bury(queue: string, receipt: QueueReceipt, error: string): Promise<boolean>
  /**
   * Removes at most `limit` messages that are not in flight, including scheduled messages. Dead letters are kept. Also
   * forgets the deduplication ids of the queue.
   *
   * @returns the number of messages removed, and whether there may be more.
   */
  purge(queue: string, limit: number): Promise<{ readonly removed: number; readonly more: boolean }>
}

/**
 * The stored queues as senders use them. `send` stores all messages in the caller's transaction, numbered in the order
 * given, by one statement for messages without `deliverAt` and another for those with it. With `notify`, listening
 * receivers are notified when the transaction commits.
 *
 * @throws {NotInTransactionError} outside a transaction; nothing was written.
 */
export interface QueueSender {
  send(
    session: Session,
    messages: readonly MessageToStore[],
    options?: { readonly notify?: Notify | undefined },
  ): Promise<void>
}
