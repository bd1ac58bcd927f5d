import type {
  DeadLetters,
  DeduplicationOptions,
  InTransaction,
  InboxMessage,
  NewMessage,
  OneOrMore,
  StoredId,
  Telemetry,
} from '@txbox/core'

export interface QueueOptions {
  /** 1 to 80 characters. Queues with different names share nothing. */
  name: string
  /**
   * How long a received message is invisible to other receivers, in milliseconds, by the database's clock. A message
   * that is not deleted by then is received again. 1 second to 12 hours. @default 30_000
   */
  visibilityTimeoutMs?: number | undefined
  /**
   * A message that was received this often without being deleted becomes a dead letter instead of being received again.
   * With 1, a crash makes dead letters of all messages that the process had received. 1 to 1000. @default 10
   */
  maxReceives?: number | undefined
  /**
   * Stores a message only once if it is sent twice within a window, as a FIFO queue does. The ids are remembered in the
   * inbox table, in the transaction of the message. @default off
   */
  deduplication?: DeduplicationOptions | undefined
  /**
   * Whether `send` on PostgreSQL notifies receivers when the transaction commits, and whether consumers, and `receive` with
   * `waitMs` while it waits, listen. NOTIFY takes a lock during COMMIT that all notifying transactions of the server share: at high
   * rates, polling is faster.
   *
   * - `'auto'`: `send` notifies as an outbox does with `notify: 'auto'`: after a silence, at most 20 transactions a second in this
   *   process, and never where that could let the transaction fail. All queues of a `database` listen on one connection, where they
   *   can; through a pooler, and with a `db` that opens no connection for it, they poll. A connection that is refused, lost or silent
   *   is reported once as a process warning with the code `TXBOX_QUEUE_NOT_LISTENING`, and is replaced.
   * - `true`: every `send` notifies, and the queue listens on a connection of its own. Where it cannot listen, it polls.
   * - `false`: nobody notifies or listens.
   *
   * @default 'auto'; on MySQL and MariaDB, which cannot notify, this is `false`
   */
  notify?: boolean | 'auto' | undefined
  /**
   * The telemetry that receives traces and metrics. The context of the code that sends is stored with each message, and receivers get
   * it as the headers `traceparent` and `tracestate`; a header `traceparent` of a message takes precedence.
   *
   * @default the telemetry that is registered for the process, such as by `import '@txbox/opentelemetry/register'`
   */
  telemetry?: Telemetry | undefined
}

/** A message to send. `key` is the message group: the messages of one key are received in order, one at a time. */
export type NewQueueMessage<P = unknown> = Omit<NewMessage<P>, 'topic'>

/** Proof that its holder has received a message. */
export interface Receipt {
  /** Opaque text, which another process may use as well. Valid until the message becomes visible again. */
  readonly receipt: string
}

/** A received message, together with what its receiver needs to settle it. */
export interface Received<P = unknown> extends Receipt {
  /**
   * `payload` is the parsed value if the content type is JSON, text if it is `text/…` in UTF-8, and the bytes
   * otherwise; `P` is not checked. `time` is the time of `send`, by the database's clock.
   */
  readonly message: InboxMessage<P>
  readonly key?: string
  readonly deduplicationId?: string
  /** The number of receives, including this one. Receives that were released with `counted: false` are not included. */
  readonly receives: number
  /** When the message becomes visible again, by the database's clock. */
  readonly visibleAt: Date
  /** Why the message cannot be decoded, if it cannot. Its payload is then the stored bytes. */
  readonly undecodable?: Error
}

export interface ReceiveOptions {
  /**
   * The maximum number of messages. Their payloads have at most 16 MiB in total; a larger message is returned alone. 1
   * to 1000. @default 10
   */
  readonly limit?: number | undefined
  /** How long to wait for at least one message, in milliseconds. 0 to 20 seconds. @default 0 */
  readonly waitMs?: number | undefined
  /** 1 second to 12 hours. @default that of the queue */
  readonly visibilityTimeoutMs?: number | undefined
  /**
   * Makes the receive repeatable when its answer is lost: a receive with the same id within 5 minutes of the first
   * returns the same messages with the same receipts, and their timeout begins again. 1 to 128 characters from `!` to
   * `~`. Not together with `remove`.
   */
  readonly attemptId?: string | undefined
  /**
   * At most once: the messages are deleted by the same transaction that receives them, so that a message whose handling
   * fails is lost. The receipts of such messages are not valid. @default false
   */
  readonly remove?: boolean | undefined
  /** Ends the wait with an empty result. If messages have been received by then, they are returned. */
  readonly signal?: AbortSignal | undefined
}

/** A queue that can only send: its database has no connections of its own. */
export interface SendingQueue<P = unknown> {
  readonly name: string
  /**
   * Stores a message, or an array of messages with one statement, in the caller's transaction. If the transaction
   * commits, each message is received until it is deleted, and messages with the same `key` are received in the order
   * of the calls. If the transaction rolls back, the messages are never received. Order across transactions is as with
   * `outbox.publish`.
   *
   * A message with `deliverAt` is not received before that instant, and is not part of the order of its key.
   *
   * With the option `deduplication`, a message whose id was sent before is not stored: its result is the id of the
   * first message with `duplicate: true`. A concurrent send of the same id waits for the transaction of the first.
   *
   * A call takes at most 10,000 messages, 10 MiB per payload and 64 MiB in total.
   *
   * @returns the id of each message, in the order given.
   * @throws {InvalidMessageError | UnsupportedTransactionError | NotInTransactionError | SchemaError | DatabaseUnavailableError
   *   | TransactionAbortedError | TransactionConflictError} as `outbox.publish` does.
   */
  send<H extends object, M extends NewQueueMessage<P> | readonly NewQueueMessage<P>[]>(
    tx: H & InTransaction<H>,
    message: OneOrMore<NewQueueMessage<P>, M>,
  ): Promise<M extends readonly unknown[] ? readonly StoredId[] : StoredId>
}

/**
 * A queue in the user's database. Every method but `send`, and `delete` with `tx`, works on connections of the database,
 * and can throw `SchemaError`, `DatabaseUnavailableError` and `DatabaseAccessError`.
 */
export interface Queue<Tx = unknown, P = unknown> extends SendingQueue<P> {
  /**
   * Receives messages: each is then invisible to other receivers until its visibility timeout is over. While a message
   * of a key is in flight, no other message of the key is received. Never waits for a lock.
   *
   * @returns the messages; an empty array when there is none.
   * @throws {InvalidOptionError} for an unknown or wrong option.
   * @throws {ReceiveAttemptError} when a repeated receive cannot give the same messages again.
   */
  receive(options?: ReceiveOptions): Promise<readonly Received<P>[]>
  /**
   * Marks the message as handled: it is never received again. With `tx`, this takes effect when that transaction
   * commits. Call `delete` as the first statement of the transaction of the work, so that the message takes effect
   * once: if two receivers use the same receipt, the second waits for the first, and gets the error before it has done
   * anything.
   *
   * @throws {ReceiptExpiredError} when the receipt is not valid; nothing was changed. Roll back.
   */
  delete(received: Receipt, options?: { readonly tx?: Tx }): Promise<void>
  /**
   * Changes the time until which the message is invisible to `visibilityTimeoutMs` from now, 0 to 12 hours. With 0, the
   * message is visible at once, and the receipt is no longer valid. While an open transaction has locked the message, for
   * example because it has deleted it, the call resolves without changing anything.
   *
   * @throws {ReceiptExpiredError} when the receipt is not valid; nothing was changed.
   */
  changeVisibility(received: Receipt, visibilityTimeoutMs: number): Promise<void>
  /**
   * Gives the message back unhandled: it becomes visible again after `delayMs`, and the receipt is no longer valid.
   *
   * @throws {ReceiptExpiredError} when the receipt is not valid; nothing was changed.
   */
  release(received: Receipt, options?: ReleaseOptions): Promise<void>
  /**
   * Makes the message a dead letter. The next message of its key can be received.
   *
   * @throws {ReceiptExpiredError} when the receipt is not valid; nothing was changed.
   */
  bury(received: Receipt, options: { readonly error: unknown }): Promise<void>
  readonly deadLetters: DeadLetters
  /**
   * Removes all messages that are not in flight, including scheduled messages, and forgets the deduplication ids of the
   * queue. Dead letters stay.
   */
  purge(): Promise<{ readonly removed: number }>
}

export interface ReleaseOptions {
  /** 0 to 100 years. @default 0 */
  readonly delayMs?: number | undefined
  /** The reason, for the dead letter that the message may become. Stored as text of at most 2000 characters. */
  readonly error?: unknown
  /** Whether the receive counts towards `maxReceives`. If not, `receives` is reduced by one again. @default true */
  readonly counted?: boolean | undefined
}
