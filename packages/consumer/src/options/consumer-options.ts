import type {
  ConnectedDatabase,
  DedupStore,
  InboxMessage,
  KeyExtractor,
  Logger,
  Publisher,
  RetryPolicy,
  RunsMessages,
  Source,
  Telemetry,
} from '@txbox/core'
import type { ConsumerContext, Guard } from './consumer.ts'

/** A handler whose work is one transaction. */
export type TransactionHandler<Tx, P = unknown> = (
  tx: Tx,
  message: InboxMessage<P>,
  context: ConsumerContext,
) => unknown

/** A handler for several messages in one transaction. */
export type TransactionBatchHandler<Tx, P = unknown> = (
  tx: Tx,
  messages: readonly InboxMessage<P>[],
  contexts: readonly ConsumerContext[],
) => unknown

/** A handler without a transaction of txbox. */
export type MessageHandler<P = unknown> = (message: InboxMessage<P>, context: ConsumerContext) => unknown

/** A handler for several messages without a transaction of txbox. */
export type BatchHandler<P = unknown> = (
  messages: readonly InboxMessage<P>[],
  contexts: readonly ConsumerContext[],
) => unknown

export interface BatchOptions {
  /** The maximum number of messages in a batch, 1 to 10,000. A batch has at most one message of each key, except with a local consumer. */
  maxSize: number
  /** How long the oldest message waits for more messages, 0 to 3,600,000 ms. @default 0 */
  lingerMs?: number | undefined
}

/** The options of every consumer. */
export interface ConsumerOptions<P = unknown> {
  source: Source<P>
  /** The name of the consumer, 1 to 100 characters. Required without an inbox. @default the consumer of the inbox */
  name?: string | undefined
  /** The maximum number of handlers, or batches, at a time: 1 to 10,000, and 1 to 1000 batches. @default 10 */
  concurrency?: number | undefined
  /**
   * The maximum number of deliveries that are received and not settled, `concurrency` (with `batch`, `concurrency` times
   * `maxSize`) to 65,535. Fixed while the consumer runs, so that `concurrency` can rise to this number and no further.
   *
   * @default twice the minimum; if the source has leases, the minimum
   */
  prefetch?: number | undefined
  /**
   * `'per-key'`: messages of one key are handled one at a time, in the order in which they were received. While the consumer
   * holds a message for a retry, the later messages of its key wait. If several consumers share a queue, use a queue with a
   * single active consumer, or a source that keeps the order itself.
   *
   * @default 'per-key'
   */
  order?: 'per-key' | 'none' | undefined
  /**
   * `'manual'`: the result of the handler is ignored, and `context.ack` settles the delivery, also after the handler has
   * returned. Only for consumers that work at least once, without a transaction. A delivery that is not acknowledged within
   * `handleTimeoutMs` has failed.
   *
   * @default 'auto'
   */
  acknowledge?: 'auto' | 'manual' | undefined
  /**
   * The maximum number of deliveries of a message, and the pauses between them. If delivery number `attempts` fails, the
   * message becomes a dead letter.
   *
   * @default exponentialBackoff(), with the attempts of the source, if the source limits them
   */
  retry?: RetryPolicy | undefined
  /** The maximum number of local retries of one delivery, 0 to 1000. After them the message is redelivered. @default 10 */
  localRetries?: number | undefined
  /**
   * A message whose `RetryLaterError` asks for a delay of at most this time is retried locally, without a redelivery: 0 to
   * 60,000 ms.
   *
   * @default 50
   */
  localDelayMs?: number | undefined
  /**
   * How long the consumer holds a delivery for its next attempt if the source keeps no delays, 0 to 900,000 ms. A delivery
   * with a longer delay is held this long, and is then returned to the source, which delivers it again too early.
   *
   * @default 30_000
   */
  holdMs?: number | undefined
  /**
   * The maximum time for handling one delivery, 100 ms to 24 h, or Infinity. When it has passed, the signal is aborted, the
   * transaction is rolled back, and the delivery has failed. A statement in flight is bounded by the server's own limits
   * (`statement_timeout`, `max_execution_time`).
   *
   * @default 300_000
   */
  handleTimeoutMs?: number | undefined
  /**
   * Receives dead letters if the source does not keep rejected messages. Such a source requires the publisher, unless
   * `delivery` is `'at-most-once'`. A message is accepted only after the publisher has accepted its dead letter, which has
   * the bytes, content type and headers of the message as it was received, and the headers `txbox-error`, `txbox-deliveries`
   * and `txbox-source`. The publisher has 30 s to answer. If it refuses a dead letter with `retryable: false`, or by a
   * `PermanentError`, the source keeps the message if it can; otherwise a reduced dead letter is published. The consumer does
   * not close the publisher.
   */
  deadLetters?: Publisher | undefined
  /** The topic of dead letters, 1 to 255 characters. @default the name of the consumer, followed by `.dead-letters` */
  deadLetterTopic?: string | undefined
  /**
   * The dedup stores that are asked before the handler is called, in this order. The first store that knows a message
   * decides. Without a transaction, the message is marked right after the handler: if the process dies in between, the
   * message is handled again.
   */
  dedup?: DedupStore | readonly DedupStore[] | undefined
  /** How long a mark of `dedup` is kept, 1 s to 100 years. @default the store's own retention, 1 day for redisDedup() and sqlDedup() */
  retentionMs?: number | undefined
  /** The key of a message for `dedup` and `context.key`. With an inbox, pass the key of the inbox. @default messageId() */
  key?: KeyExtractor<InboxMessage<P>> | undefined
  /**
   * A logger with pino's argument order, or `consoleLogger()`. Without a logger, the first failure of each kind that has
   * no listener becomes a process warning with the code `TXBOX_UNHEARD_…`; `false` suppresses the warning. Log lines do
   * not contain payloads.
   */
  logger?: Logger | false | undefined
  /**
   * The telemetry that receives traces and metrics: each message, or batch, is handled in a span `process <name>`, in which the
   * handler runs.
   *
   * @default the telemetry that is registered for the process, such as by `import '@txbox/opentelemetry/register'`
   */
  telemetry?: Telemetry | undefined
  /**
   * How the span of a message is related to the trace of the message. `'message'`: the span is part of that trace. `'link'`: the span
   * begins a trace, and is linked to the other one. The span of a batch is always linked.
   *
   * @default 'message'
   */
  parent?: 'message' | 'link' | undefined
  /** Aborting the signal stops the consumer. */
  signal?: AbortSignal | undefined
}

/** Effect once: the claim of an inbox and the handler's work commit together. */
export interface InboxConsumerOptions<Tx, P = unknown> extends ConsumerOptions<P> {
  /** An inbox whose database was created with a `db`. */
  inbox: RunsMessages<Tx, InboxMessage<P>>
  /** Runs in the transaction, after the claim and before the handler. */
  guard?: Guard<Tx, InboxMessage<P>> | undefined
}

/** Effect once: the source settles the delivery in the handler's transaction. */
export interface DatabaseConsumerOptions<Tx, P = unknown> extends ConsumerOptions<P> {
  /** The name of the consumer, 1 to 100 characters. */
  name: string
  /** The database of the source. */
  database: ConnectedDatabase<Tx>
  /** Runs in the transaction, before the handler. */
  guard?: Guard<Tx, InboxMessage<P>> | undefined
}

/** The options of a consumer that handles messages without a transaction of txbox. */
export interface PlainConsumerOptions<P = unknown> extends ConsumerOptions<P> {
  /** The name of the consumer, 1 to 100 characters. */
  name: string
  /**
   * `'at-most-once'`: a delivery is accepted before the handler is called. If the handler fails, the message is not
   * delivered again.
   *
   * @default 'at-least-once'
   */
  delivery?: 'at-least-once' | 'at-most-once' | undefined
}
