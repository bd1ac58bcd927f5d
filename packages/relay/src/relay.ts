import type { ConnectedDatabase, Logger, Publisher, RetryPolicy } from '@txbox/core'

/** The events of a relay. Events are for logs and metrics: a listener that throws disturbs nothing. */
export interface RelayEvents {
  /** A batch of one shard has been confirmed by the broker and removed from the backlog. */
  published: { shard: number; count: number; durationMs: number }
  /** The publisher refused a message. The message and its key wait until `dueAt`. */
  parked: { id: string; topic: string; key?: string; attempt: number; dueAt: Date; error?: unknown }
  /** The publisher refused a message for good, or for the last time: the message is kept as a dead letter, and its key goes on. */
  'dead-lettered': { id: string; topic: string; key?: string; attempts: number; error: unknown }
  /** The publisher threw: nothing is known of the batch, and the relay pauses as a whole for `retryInMs`. */
  unavailable: { error: unknown; retryInMs: number }
  'lease-acquired': { shard: number; term: bigint }
  /** `'expired'`: not renewed in time; `'taken'`: another relay has it; `'stopped'`: given back, when stopping or sharing with another relay. */
  'lease-lost': { shard: number; term: bigint; reason: 'expired' | 'taken' | 'stopped' }
  /** The database failed, or something unexpected happened. The relay goes on by itself. */
  error: { error: unknown }
}

export interface RelayOptions {
  /** A database with a `db`. The relay needs at least two of its connections; six are best. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the relay opens no transactions of the user's type
  database: ConnectedDatabase<any>
  publisher: Publisher
  /** The maximum number of messages in one batch, 1 to 10,000. @default 1000 */
  batchSize?: number | undefined
  /**
   * The maximum size of the payloads in one batch, 1 KiB to 256 MiB; a single larger message still goes. Four batches are in
   * memory at a time, sixteen with a publisher that keeps the order of keys. @default 4 MiB
   */
  batchBytes?: number | undefined
  /** How often to look for new messages: `min` while there are some, up to `max` when idle; 1 ms to 1 h. @default { min: 20, max: 500 } */
  pollIntervalMs?: { min: number; max: number } | undefined
  /**
   * `'notify'`: the relay also looks as soon as an outbox with `notify: true` announces messages. PostgreSQL only, on a
   * connection of its own. Without that connection the relay goes on polling. @default 'poll'
   */
  wakeup?: 'poll' | 'notify' | undefined
  /** How long a shard stays with a relay that does not renew its lease, by the database's clock, in ms; 500 ms to 10 min. @default 10_000 */
  leaseMs?: number | undefined
  /** The name of this relay in the table of leases, 1 to 200 characters; each process needs its own. @default host, process id and a random part */
  owner?: string | undefined
  /** How often a refused message is tried, and after which pauses. @default exponentialBackoff() */
  retry?: RetryPolicy | undefined
  /**
   * The logger of the relay: an object with pino's argument order, or `consoleLogger()`. The relay logs dead letters and
   * errors as errors; refused messages, an unavailable publisher and lost leases as warnings; and trouble that goes on once
   * a minute with a count. Without a logger, the first failure of each kind that has no listener is a process warning with
   * the code `TXBOX_UNHEARD_…`; `false` silences the warning.
   */
  logger?: Logger | false | undefined
  /**
   * How long one call of the publisher may take, in milliseconds: 10 ms to 1 h. The signal of a call that takes longer
   * is aborted, and the relay emits an `error` with a `PublishTimeoutError`; only the shard of its messages waits until
   * the call ends.
   *
   * @default 60 000
   */
  publishTimeoutMs?: number | undefined
  /** Stops the relay. */
  signal?: AbortSignal | undefined
}

/** The worker that moves messages from the outbox to a broker. */
export interface Relay extends AsyncDisposable {
  /**
   * Takes this relay's share of the shards and publishes until the relay is stopped. Any number of relays may run.
   *
   * @throws {SchemaError | DatabaseUnavailableError} when the relay cannot begin.
   */
  start(): Promise<void>
  /**
   * Finishes the batches in flight, gives the leases back and closes the publisher. Resolves by the deadline at the
   * latest; shortly before it the publisher's signal is aborted.
   */
  stop(options?: {
    /** In milliseconds; 0 to 1 h. @default 10_000 */
    timeoutMs?: number | undefined
  }): Promise<void>
  /**
   * Publishes all that is due now, and resolves when each shard has been seen with nothing due since the call, whoever
   * emptied the shard. Waits while the broker or the database is unavailable. For jobs and tests: a relay that is not running
   * is started for the length of the drain, and its publisher stays open until `stop`.
   *
   * @returns what this relay has published meanwhile, how often a message was parked (because it was refused, or is behind a
   *   refused message), and how many messages became dead letters.
   */
  drain(): Promise<{ published: number; parked: number; deadLettered: number }>
  /** Resolves when the relay has stopped; rejects only if it cannot go on. */
  readonly stopped: Promise<void>
  /** Calls `listener` for each event. @returns a function that ends the subscription. */
  on<E extends keyof RelayEvents>(event: E, listener: (event: RelayEvents[E]) => void): () => void
}
