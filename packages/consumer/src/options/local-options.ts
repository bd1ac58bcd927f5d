import type { ConnectedDatabase, Logger, RetryPolicy, Telemetry } from '@txbox/core'
import type { AtLeastOnce } from './at-least-once.ts'
import type { BatchOptions } from './consumer-options.ts'
import type { Consumer, ConsumerContext } from './consumer.ts'
import type { LocalInboxMessage } from './local-message.ts'

/**
 * Handles a message in a transaction, with which the message is removed: effect once.
 *
 * The handler must not end the transaction, by a COMMIT or on MySQL and MariaDB by DDL: what it has written until then may be
 * committed although its message is still there, and the message becomes a dead letter with a `TransactionAbortedError`.
 */
export type LocalHandler<Tx, P = unknown> = (
  tx: Tx,
  message: LocalInboxMessage<P>,
  context: ConsumerContext,
) => unknown

/** Handles several messages of one type in one transaction, with which they are removed: effect once. */
export type LocalBatchHandler<Tx, P = unknown> = (
  tx: Tx,
  messages: readonly LocalInboxMessage<P>[],
  contexts: readonly ConsumerContext[],
) => unknown

/** The handlers of a local consumer by the type of the messages. */
export type LocalHandlers<Tx, Payloads> = {
  readonly [Type in keyof Payloads]:
    | LocalHandler<Tx, Payloads[Type]>
    | AtLeastOnce<LocalInboxMessage<Payloads[Type]>>
}

/** The handlers of a local consumer with `batch`, by the type of the messages. */
export type LocalBatchHandlers<Tx, Payloads> = {
  readonly [Type in keyof Payloads]:
    | LocalBatchHandler<Tx, Payloads[Type]>
    | AtLeastOnce<readonly LocalInboxMessage<Payloads[Type]>[]>
}

/** The options of every local consumer. */
export interface AnyLocalConsumerOptions<Tx> {
  /** The database whose outbox stores the messages. Created with a `db`. */
  database: ConnectedDatabase<Tx>
  /**
   * The name of the consumer: 1 to 100 visible ASCII characters, without a leading `@`. Each message that is published while the
   * consumer subscribes to its type is stored once for this name. All processes with this name share the messages.
   */
  consumer: string
  /**
   * The maximum number of handlers, or batches, at a time: 1 to 10,000, and 1 to 1000 batches. A handler in a transaction uses one
   * connection of the pool.
   *
   * @default what the pool leaves: its maximum less six, shared by the local consumers on this `database`; 1 to 10 each, and 10 if
   * the pool does not show its maximum
   */
  concurrency?: number | undefined
  /** The messages of one key are handled one at a time, in the order in which they were published. There is no other order. */
  order?: 'per-key' | undefined
  /**
   * The maximum number of attempts of a message, 1 to 1000, and the pauses between them; a pause of more than a day is cut. If attempt number `attempts` fails, the message
   * becomes a dead letter. Until then, and while it waits, the later messages of its key wait. Conflicts and outages of the database
   * count no attempt.
   *
   * @default exponentialBackoff()
   */
  retry?: RetryPolicy | undefined
  /**
   * The maximum time for handling one message or batch, 100 ms to 24 h. When it has passed, the signal is aborted, the transaction
   * is rolled back, and the attempt has failed. A transaction that is open for long keeps PostgreSQL from removing dead rows, so let
   * a handler that waits for others be `atLeastOnce`.
   *
   * @default 60_000
   */
  handleTimeoutMs?: number | undefined
  /**
   * The duration of a lease, by the database's clock: the messages of a process that dies wait this long. 500 ms to 10 min.
   *
   * @default 10_000
   */
  leaseMs?: number | undefined
  /**
   * The polling interval in milliseconds: `min` while there are messages, growing to `max` when idle; each 1 ms to 1 h, `max` at least `min`. The local
   * consumers of a process that share a `database` poll together, at the shortest interval of them.
   *
   * @default { min: 20, max: 500 } while a connection listens and a transaction has notified on it, otherwise { min: 20, max: 100 };
   * `min` for `max` if that is more
   */
  pollIntervalMs?: { min?: number | undefined; max?: number | undefined } | undefined
  /**
   * How the consumer finds new messages before the next poll. The local consumers of a process that share a `database` listen on
   * one connection, unless all of them have `'poll'`.
   *
   * - `'auto'`: on PostgreSQL, it listens, and polls at once when a transaction that notifies commits (see `notify` of
   *   `createOutbox`). Where it cannot listen, it polls: on MySQL and MariaDB, through a pooler, and with a `db` that opens no
   *   connection for it. A connection that is refused, lost or silent is reported once as a warning, and is replaced.
   * - `'notify'`: the same, but a database that cannot listen is an `InvalidOptionError`.
   * - `'poll'`: the consumer only polls.
   *
   * @default 'auto'
   */
  wakeup?: 'auto' | 'poll' | 'notify' | undefined
  /**
   * The isolation level of the handlers' transactions.
   *
   * @default the server's default on PostgreSQL; 'read committed' on MySQL and MariaDB
   */
  isolationLevel?: 'read committed' | 'repeatable read' | undefined
  /**
   * A logger with pino's argument order, or `consoleLogger()`. Without a logger, the first failure of each kind that has
   * no listener becomes a process warning with the code `TXBOX_UNHEARD_…`; `false` suppresses the warning. Log lines do
   * not contain payloads.
   */
  logger?: Logger | false | undefined
  /**
   * The telemetry that receives traces and metrics: each message, or batch, is handled in a span `process <consumer>`, in which the
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

/** The options of a local consumer that handles one message at a time. */
export interface LocalConsumerOptions<Tx, Payloads> extends AnyLocalConsumerOptions<Tx> {
  /**
   * The handlers by the type of the messages, at least one; a type has 1 to 255 characters. The consumer subscribes to these types
   * when it starts.
   */
  handlers: LocalHandlers<Tx, Payloads>
  batch?: undefined
}

/** The options of a local consumer that handles several messages together. */
export interface LocalBatchConsumerOptions<Tx, Payloads> extends AnyLocalConsumerOptions<Tx> {
  /**
   * The handlers by the type of the messages, at least one; a type has 1 to 255 characters. The consumer subscribes to these types
   * when it starts.
   */
  handlers: LocalBatchHandlers<Tx, Payloads>
  /**
   * The messages of a batch have one type, and it may have several of a key, in their order. If a batch fails, it is divided until
   * only the message that is to blame counts an attempt.
   */
  batch: BatchOptions
}

/** The result of a `drain`. */
export interface LocalDrainResult {
  /** The number of messages that were handled. */
  readonly handled: number
  /** How often a message has failed, and waits for its next attempt. */
  readonly parked: number
  readonly deadLettered: number
  /**
   * The number of messages that are due and were not handled, because the deadline had come; at most 1,000,000. `NaN` if the
   * database has not counted them within a second after the deadline.
   */
  readonly left: number
}

/** Handles the messages that an outbox has stored for this consumer. */
export interface LocalConsumer extends Omit<Consumer<LocalInboxMessage>, 'start' | 'stop' | 'concurrency'> {
  /** The maximum number of handlers, or batches, at a time. A default share changes when other consumers start or stop. */
  readonly concurrency: number
  /**
   * Checks the tables, subscribes to the types of the handlers, and begins to handle messages. After an error nothing runs, and
   * `start` may be called again.
   *
   * @throws {SchemaError} when the tables are missing or have another revision.
   * @throws {DatabaseUnavailableError | DatabaseAccessError} when the database cannot be used.
   * @throws {InvalidOptionError} after `stop`.
   */
  start(): Promise<void>
  /**
   * Begins no further message. Running handlers may finish within `timeoutMs`. Shortly before the time is over, their signals are
   * aborted and their transactions rolled back, which counts no attempt. Resolves at most 0.1 s after the time limit.
   *
   * @throws {InvalidOptionError} for an unknown or wrong option.
   */
  stop(options?: {
    /** The time limit in milliseconds, 0 to 1 h. @default 10_000 */
    timeoutMs?: number | undefined
  }): Promise<void>
  /**
   * Handles all messages that are due, and returns: for cron jobs and functions, also without `start`. Does not wait for messages
   * whose next attempt is not due. Without `start`, other processes may take the messages of this consumer as soon as `drain` has
   * returned.
   *
   * @throws {InvalidOptionError} for an unknown or wrong option, and the errors of `start`.
   */
  drain(options?: {
    /** When to return although messages are left, in milliseconds from now, 1 ms to 24 h. @default no limit */
    deadlineMs?: number | undefined
  }): Promise<LocalDrainResult>
}
