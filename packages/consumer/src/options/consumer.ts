import type { InboxContext, InboxMessage } from '@txbox/core'

/** The delivery that a consumer's handler handles. */
export interface ConsumerContext extends InboxContext {
  /**
   * Aborted when the result of the handler is no longer used: `handleTimeoutMs` has passed, the consumer must stop now, or
   * the broker has taken back the delivery.
   */
  readonly signal: AbortSignal
  /** The number of deliveries of this message, including this delivery. Local retries do not count. */
  readonly deliveries: number
  /** The number of local retries since the message was delivered. */
  readonly localRetries: number
  /**
   * Settles the delivery: as failed if `error` is passed, and as handled otherwise. The method works with
   * `acknowledge: 'manual'`, and in batches that are handled at least once. The first call counts.
   *
   * @throws {InvalidOptionError} in all other modes, because the handler's promise settles the delivery.
   *
   * @param elapsedMs the time that the work took, for the event `handled`. @default the time since the handler was called
   */
  readonly ack: (elapsedMs?: number, error?: unknown) => void
}

/** Decides in the transaction, after the claim and before the handler, whether a message still applies. */
export interface Guard<Tx, M = InboxMessage> {
  (tx: Tx, message: M): Promise<'apply' | 'stale'>
  /**
   * Names the row that the guard locks for a message. For the messages of a batch, the guard is then called in the order of
   * these texts, and otherwise in the order of the messages, so that two batches with the same rows do not deadlock. Must not
   * throw.
   */
  readonly rowOf?: ((message: M) => string) | undefined
}

/**
 * How a message was handled. `'processed'`: by the handler. `'duplicate'`: an earlier delivery of the message was handled.
 * `'too-old'`: the message is older than the inbox's `maxAgeMs`. `'stale'`: the guard refused the message, or the handler
 * returned `{ status: 'stale' }`. `'already'`: the handler returned `{ status: 'already' }`.
 */
export type HandledOutcome = 'processed' | 'duplicate' | 'too-old' | 'stale' | 'already'

/** The message that an event is about. */
export interface MessageEvent<M = InboxMessage> {
  /** The name of the source. */
  readonly source: string
  readonly message: M
  readonly deliveries: number
}

/** The events of a consumer, for logs and metrics. An error that a listener throws does not disturb the consumer. */
export interface ConsumerEvents<M = InboxMessage> {
  /**
   * The handler has succeeded, and its delivery was accepted. If the delivery could not be accepted, the event `error` or
   * `lost` comes first, and the source delivers the message again. With an inbox, the acceptance may still be in flight: if the
   * connection breaks now, the message is delivered again with the outcome `'duplicate'`.
   */
  handled: MessageEvent<M> & { readonly outcome: HandledOutcome; readonly durationMs: number }
  /**
   * The message is handled again after `delayMs`. `local`: without a redelivery, and without counting a delivery, as after a
   * conflict for which the database asks for the transaction to be run again.
   */
  retried: MessageEvent<M> & { readonly error: unknown; readonly delayMs: number; readonly local: boolean }
  /** The message cannot be handled, or has failed too often. The message is now a dead letter. */
  'dead-lettered': MessageEvent<M> & { readonly error: unknown }
  /**
   * At most once: the message has failed after it was accepted, and is not delivered again. Or the connection broke while the
   * source accepted the message: the handler was not called, and the message is delivered again only if the source had not
   * received the acceptance.
   */
  dropped: MessageEvent<M> & { readonly error: unknown }
  /**
   * The source, the database, the dedup store or the publisher of dead letters cannot be reached or used. No message is at fault,
   * and no attempt is counted. `retryInMs` is `Infinity` when half of the room is taken by messages whose dead letters are refused
   * for good: the consumer does not work until it is started again.
   *
   * Also emitted when the connection of a transaction has ended although the server can be reached: its message is tried again, up to
   * three times without counting an attempt.
   */
  unavailable: { readonly source: string; readonly error: unknown; readonly retryInMs: number }
  /** A message of this key is returned to the source, and later messages of the key may overtake it. */
  'order-broken': MessageEvent<M> & { readonly key: string }
  /**
   * The source has taken back a delivery that was not settled: the connection broke, or the lease of the delivery was not
   * extended in time. A queue in the database needs a pool with more connections than handlers that run at the same time.
   */
  lost: MessageEvent<M>
  /**
   * The message has been handled for more than a minute: the handler, or a statement of its transaction, has not ended. Reported
   * again each minute.
   */
  slow: MessageEvent<M> & { readonly durationMs: number }
  /**
   * An unexpected error: a settlement that failed, a message that was never acknowledged, a dead letter that was refused for good,
   * or a listener that threw.
   */
  error: { readonly error: unknown; readonly source?: string; readonly message?: M }
}

/** The numbers of deliveries that a consumer has received and not settled. */
export interface ConsumerFigures {
  /** The number of all unsettled deliveries. */
  readonly inHand: number
  readonly running: number
  /** The number of deliveries that wait for an earlier message of their key, or for a free handler. */
  readonly waiting: number
  /** The number of deliveries that wait for their next attempt. */
  readonly retrying: number
}

/** Receives deliveries from a source, and passes them to a handler. */
export interface Consumer<M = InboxMessage> extends AsyncDisposable {
  /**
   * Starts receiving. Resolves when the source is open, or when it could not be opened: the consumer then emits
   * `unavailable`, and tries again.
   *
   * @throws {InvalidOptionError} after `stop`.
   */
  start(): Promise<void>
  /**
   * Stops receiving. Running handlers may finish within `timeoutMs`; deliveries whose handler has not begun are returned to
   * the source at once (RabbitMQ: those with a key when no handler runs any more). Shortly before the time is over, the signals of the running handlers are aborted, and their
   * deliveries are returned to the source, too. Resolves at most 0.1 s after the time limit: if the source is silent then,
   * the consumer disconnects.
   */
  stop(options?: {
    /** The time limit in milliseconds, 0 to 1 h. @default 10_000 */
    timeoutMs?: number | undefined
  }): Promise<void>
  /** Resolves when the consumer has stopped. */
  readonly stopped: Promise<void>
  /** Starts no handler and receives nothing until `resume` is called. Running handlers continue, and leases are extended. */
  pause(): void
  resume(): void
  /**
   * The maximum number of handlers at a time, 1 to `prefetch`. It can be changed while the consumer runs; if it is reduced,
   * running handlers finish first. It cannot rise above the option `prefetch`, because a source may read `prefetch` only
   * when it is opened: create the consumer with a `prefetch` of the greatest number that you need. With `batch`, the number
   * cannot be changed.
   *
   * @throws {InvalidOptionError} when set to anything else.
   */
  concurrency: number
  readonly figures: ConsumerFigures
  /** Calls `listener` for each event. @returns a function that removes the listener. */
  on<E extends keyof ConsumerEvents<M>>(event: E, listener: (event: ConsumerEvents<M>[E]) => void): () => void
}
