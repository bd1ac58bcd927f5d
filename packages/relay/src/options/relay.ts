import type { ConnectedDatabase, Logger, Publisher, RetryPolicy, Telemetry } from '@txbox/core'

/** The events of a relay, for logs and metrics. An error that a listener throws does not disturb the relay. */
export interface RelayEvents {
  /** The broker has confirmed a batch of one shard, and the batch was removed from the backlog. */
  published: { shard: number; count: number; durationMs: number }
  /** The publisher rejected a message. The message and its key wait until `dueAt`. */
  parked: { id: string; topic: string; key?: string; attempt: number; dueAt: Date; error?: unknown }
  /**
   * The publisher rejected a message permanently, or for the last time: the message is kept as a dead letter, and its
   * key continues.
   */
  'dead-lettered': { id: string; topic: string; key?: string; attempts: number; error: unknown }
  /** The publisher threw: the result of the batch is unknown, and the whole relay pauses for `retryInMs`. */
  unavailable: { error: unknown; retryInMs: number }
  'lease-acquired': { shard: number; term: bigint }
  /**
   * `'expired'`: not renewed in time. `'taken'`: another relay holds the lease. `'stopped'`: released, because the
   * relay stops or shares its shards with another relay.
   */
  'lease-lost': { shard: number; term: bigint; reason: 'expired' | 'taken' | 'stopped' }
  /**
   * The database failed, the retry policy gave no pause for a message, or an unexpected error occurred. The relay continues
   * by itself. With `id`, `topic` and `key` if the error concerns one message.
   */
  error: { error: unknown; id?: string; topic?: string; key?: string }
}

export interface RelayOptions {
  /** A database with a `db`. The relay needs at least two of its connections; six are best. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the relay opens no transactions of the user's type
  database: ConnectedDatabase<any>
  /** Publishes the messages: the publisher of a broker package, `publishEach(…)`, or your own. */
  publisher: Publisher
  /** The maximum number of messages in one batch, 1 to 10,000. @default 1000 */
  batchSize?: number | undefined
  /**
   * The maximum size of the payloads in one batch, 1 KiB to 256 MiB; a single larger message is published alone. Four
   * batches are in memory at a time, or sixteen with a publisher that keeps the order of keys. @default 4 MiB
   */
  batchBytes?: number | undefined
  /**
   * The polling interval in milliseconds: `min` while there are messages, growing to `max` when idle; each 1 ms to 1 h.
   *
   * @default { min: 20, max: 500 } while a connection listens and a transaction has notified on it, otherwise { min: 20, max: 100 };
   * `min` for `max` if that is more
   */
  pollIntervalMs?: { min?: number | undefined; max?: number | undefined } | undefined
  /**
   * How the relay finds new messages before its next poll.
   *
   * - `'auto'`: on PostgreSQL, it listens on a separate connection, and polls at once when a transaction that notifies commits (see
   *   `notify` of `createOutbox`). Where it cannot listen, it polls: on MySQL and MariaDB, through a pooler, and with a `db` that
   *   opens no connection for it. A connection that is refused, lost or silent is reported once, as a line of the log or a process
   *   warning, and is replaced.
   * - `'notify'`: the same, but a database that cannot listen is an `InvalidOptionError`, a connection through a pooler is tried, and
   *   each failure is an event `error`.
   * - `'poll'`: the relay only polls.
   *
   * @default 'auto'
   */
  wakeup?: 'auto' | 'poll' | 'notify' | undefined
  /**
   * The duration of a lease, by the database's clock: the shards of a relay that dies wait this long. 500 ms to 10 min.
   *
   * @default 10_000
   */
  leaseMs?: number | undefined
  /**
   * The name of this relay in the table of leases, 1 to 200 characters. Each process must have a different name.
   *
   * @default host, process id and a random part
   */
  owner?: string | undefined
  /**
   * How often a rejected message is tried, and after which pauses. If the policy throws, or returns something other than a
   * number of milliseconds, the relay emits `error`, and the default policy decides. @default exponentialBackoff()
   */
  retry?: RetryPolicy | undefined
  /**
   * A logger with pino's argument order, or `consoleLogger()`. The relay logs dead letters and errors as errors, and
   * rejected messages, an unavailable publisher and lost leases as warnings. Lasting trouble is logged once a minute
   * with a count. Without a logger, the first failure of each kind that has no listener becomes a process warning with
   * the code `TXBOX_UNHEARD_…`; `false` suppresses the warning.
   */
  logger?: Logger | false | undefined
  /**
   * The telemetry that receives traces and metrics: each call of the publisher is a span `send <topic>`, linked to the contexts of
   * its messages.
   *
   * @default the telemetry that is registered for the process, such as by `import '@txbox/opentelemetry/register'`
   */
  telemetry?: Telemetry | undefined
  /**
   * How long a call of the publisher may take without reporting a result of one of its messages: 10 ms to 1 h. If a call
   * takes longer, its signal is aborted, and the relay emits an `error` with a `PublishTimeoutError`. Only the shard of its
   * messages waits until the call ends. With `publishEach`, this is the time that the function may take for a message; while
   * it finishes other messages of the batch, the signal is aborted later.
   *
   * @default 60_000
   */
  publishTimeoutMs?: number | undefined
  /** Aborting the signal stops the relay, as `stop()` does. */
  signal?: AbortSignal | undefined
}

/** Moves messages from the outbox to a broker. */
export interface Relay extends AsyncDisposable {
  /**
   * Takes this relay's share of the shards and publishes until the relay is stopped. Any number of relays may run.
   *
   * @throws {SchemaError | DatabaseUnavailableError} when the relay cannot begin.
   */
  start(): Promise<void>
  /**
   * Finishes the batches in flight, releases the leases and closes the publisher. Resolves within `timeoutMs`; shortly
   * before, the publisher's signal is aborted.
   */
  stop(options?: {
    /** In milliseconds; 0 to 1 h. A later call with a shorter time ends the earlier one, too. @default 10_000 */
    timeoutMs?: number | undefined
  }): Promise<void>
  /**
   * Publishes all messages that are due now, for jobs and tests. Resolves when each shard has been seen without due
   * messages since the call, no matter which relay emptied it. Waits while the broker or the database is unavailable. A
   * relay that is not running runs until the drain ends; its publisher stays open until `stop`.
   *
   * With `deadlineMs`, the call returns at that time although messages are left. If the relay was not running, calls of the
   * publisher that are still in flight shortly before are aborted, as by `stop`.
   *
   * @returns the number of messages that this relay published meanwhile, how often it parked a message (a rejected
   *   message, or one behind it), and the number of new dead letters.
   */
  drain(options?: {
    /** When to return although messages are left, in milliseconds from now, 1 ms to 24 h. @default no limit */
    deadlineMs?: number | undefined
  }): Promise<{ published: number; parked: number; deadLettered: number }>
  /** Resolves when the relay has stopped; rejects only if the relay cannot continue. */
  readonly stopped: Promise<void>
  /** @returns a function that removes the listener. */
  on<E extends keyof RelayEvents>(event: E, listener: (event: RelayEvents[E]) => void): () => void
}
