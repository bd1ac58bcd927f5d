import type { ConnectedDatabase, Logger, Publisher, RetryPolicy } from '@txbox/core'

/** What a relay tells. Events are for logs and metrics: a listener that throws disturbs nothing. */
export interface RelayEvents {
  /** A batch of one shard has been confirmed by the broker and removed from the backlog. */
  published: { shard: number; count: number; durationMs: number }
  /** The publisher refused a message. It and its key wait until `dueAt`. */
  parked: { id: string; topic: string; key?: string; attempt: number; dueAt: Date; error?: unknown }
  /** The publisher refused a message for good, or for the last time: it is kept as a dead letter, and its key goes on. */
  'dead-lettered': { id: string; topic: string; key?: string; attempts: number; error: unknown }
  /** The publisher threw: nothing is known of the batch, and the relay pauses as a whole. */
  unavailable: { error: unknown; retryInMs: number }
  'lease-acquired': { shard: number; term: bigint }
  /** `'expired'`: not renewed in time; `'taken'`: another relay has it; `'stopped'`: given back, when stopping or sharing with another relay. */
  'lease-lost': { shard: number; term: bigint; reason: 'expired' | 'taken' | 'stopped' }
  /** The database failed, or something unexpected happened. The relay goes on by itself. */
  error: { error: unknown }
}

export interface RelayOptions {
  /** A database with a `db`. The relay needs two connections of it at least; six are best. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the relay opens no transactions of the user's type
  database: ConnectedDatabase<any>
  publisher: Publisher
  /** The most messages in one batch, 1 to 10 000. @default 1000 */
  batchSize?: number | undefined
  /**
   * The most payload bytes in one batch, 1 KiB to 256 MiB; a single larger message still goes. Four batches are in
   * memory at a time, sixteen with a publisher that keeps the order of a key. @default 4 MiB
   */
  batchBytes?: number | undefined
  /** How often to look for new messages: `min` while there are some, up to `max` when idle; 1 ms to 1 h. @default { min: 20, max: 500 } */
  pollIntervalMs?: { min: number; max: number } | undefined
  /**
   * `'notify'`: also looks as soon as an outbox with `notify: true` tells of messages. PostgreSQL, on a connection of its
   * own. While that is not there the relay polls as ever. @default 'poll'
   */
  wakeup?: 'poll' | 'notify' | undefined
  /** How long a shard stays with a relay that gives no sign of life, by the database's clock; 500 ms to 10 min. @default 10 000 */
  leaseMs?: number | undefined
  /** Names this relay in the table of leases, 1 to 200 characters; another for each process. @default host, process id and a random part */
  owner?: string | undefined
  /** How often a message that is refused is tried, and after which pauses. @default exponentialBackoff() */
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
   * Takes its share of the shards and relays until it is stopped. Any number of relays may run.
   *
   * @throws {SchemaError | DatabaseUnavailableError} when it cannot begin.
   */
  start(): Promise<void>
  /**
   * Finishes the batches in flight, gives the leases back and closes the publisher. Resolves by the deadline at the
   * latest; shortly before it the publisher's signal is aborted.
   */
  stop(options?: {
    /** 0 to 1 h. @default 10 000 */
    timeoutMs?: number | undefined
  }): Promise<void>
  /**
   * Publishes all that is due now, and resolves when each shard has been seen with nothing due since the call, whoever
   * emptied it. → what this relay has published meanwhile, how often a message was parked (refused, or behind one that
   * was), and how many became dead letters. Waits while the broker or the database is away. For jobs and tests; a relay that is not running is started
   * for so long, and its publisher stays open until `stop`.
   */
  drain(): Promise<{ published: number; parked: number; deadLettered: number }>
  /** Resolves when the relay has stopped; rejects only if it cannot go on. */
  readonly stopped: Promise<void>
  /** Calls `listener` for each event. → a function that ends it. */
  on<E extends keyof RelayEvents>(event: E, listener: (event: RelayEvents[E]) => void): () => void
}
