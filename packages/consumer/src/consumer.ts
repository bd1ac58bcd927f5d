import type { InboxContext, InboxMessage } from '@txbox/core'

/** The delivery that a consumer's handler handles. */
export interface ConsumerContext extends InboxContext {
  /**
   * Aborted when the handler's work can no longer count: `handleTimeoutMs` has passed, the consumer must stop now, or the
   * broker has taken the delivery back.
   */
  readonly signal: AbortSignal
  /** The number of deliveries of this message, this one included. Local retries do not count. */
  readonly deliveries: number
  /** The number of local retries since the message was delivered. */
  readonly localRetries: number
  /**
   * Settles the delivery, in batches at least once and with `acknowledge: 'manual'`: as handled, or with `error` as
   * failed. The first call counts. In all other modes the method does nothing, because the handler's promise settles the
   * delivery.
   *
   * @param elapsedMs the time that the work took, for the event `handled`. @default the time since the handler was called
   */
  readonly ack: (elapsedMs?: number, error?: unknown) => void
}

/** Decides in the transaction, after the claim and before the handler, whether a message still applies. */
export type Guard<Tx, M = InboxMessage> = (tx: Tx, message: M) => Promise<'apply' | 'stale'>

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
   * The message is handled, and its delivery accepted. If the delivery could not be accepted, the event `error` comes first,
   * and the source delivers the message again. With an inbox, the acceptance may still be on its way: if the connection
   * breaks now, the message comes again, and its outcome is then `'duplicate'`.
   */
  handled: MessageEvent<M> & { readonly outcome: HandledOutcome; readonly durationMs: number }
  /** The message is handled again after `delayMs`. `local`: without a redelivery, and without counting a delivery. */
  retried: MessageEvent<M> & { readonly error: unknown; readonly delayMs: number; readonly local: boolean }
  /** The message cannot be handled, or has failed too often. It is now where dead letters are kept. */
  'dead-lettered': MessageEvent<M> & { readonly error: unknown }
  /** At most once: the message has failed after it was accepted, and is gone. */
  dropped: MessageEvent<M> & { readonly error: unknown }
  /**
   * The source, the database, the dedup store or the publisher of dead letters cannot be reached. No message is at fault,
   * and no attempt is counted.
   */
  unavailable: { readonly source: string; readonly error: unknown; readonly retryInMs: number }
  /** A message of this key goes back to the source, and later messages of the key may overtake it. */
  'order-broken': MessageEvent<M> & { readonly key: string }
  /** The broker has taken back a delivery that was not settled, for example because the connection broke. */
  lost: MessageEvent<M>
  /** An unexpected error: a settlement that failed, a message that was never acknowledged, or a listener that threw. */
  error: { readonly error: unknown; readonly source?: string; readonly message?: M }
}

/** Deliveries that a consumer has received and not settled. */
export interface ConsumerFigures {
  /** All of them. */
  readonly inHand: number
  /** Handlers that run. */
  readonly running: number
  /** Deliveries that wait for an earlier message of their key, or for a free handler. */
  readonly waiting: number
  /** Deliveries that wait for their next attempt. */
  readonly retrying: number
}

/** Takes deliveries from a source, and hands them to a handler. */
export interface Consumer<M = InboxMessage> extends AsyncDisposable {
  /**
   * Begins to receive. Resolves when the source is open, or when it could not be opened: the consumer then reports
   * `unavailable`, and continues trying.
   *
   * @throws {InvalidOptionError} after `stop`.
   */
  start(): Promise<void>
  /**
   * Receives no more. Handlers that run may end within `timeoutMs`; deliveries that have not begun go back to the source
   * at once. Shortly before the time is over, the signals of handlers abort, and what is left goes back too.
   */
  stop(options?: {
    /** 0 to 1 h. @default 10_000 */
    timeoutMs?: number | undefined
  }): Promise<void>
  /** Resolves when the consumer has stopped. */
  readonly stopped: Promise<void>
  /** Begins no handler, and receives no more, until `resume`. Handlers that run continue, and leases are extended. */
  pause(): void
  resume(): void
  /**
   * The maximum number of handlers at a time, 1 to `prefetch`; also while the consumer runs. If the number is reduced,
   * handlers that run end first. It cannot rise above the option `prefetch`, which a source may take only when it is opened:
   * create the consumer with a `prefetch` of the greatest number that you need. Fixed with `batch`.
   *
   * @throws {InvalidOptionError} when set to anything else.
   */
  concurrency: number
  readonly figures: ConsumerFigures
  /** Calls `listener` for each event. @returns a function that removes the listener. */
  on<E extends keyof ConsumerEvents<M>>(event: E, listener: (event: ConsumerEvents<M>[E]) => void): () => void
}
