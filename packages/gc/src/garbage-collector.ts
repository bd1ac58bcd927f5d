import type { ConnectedDatabase, Logger, Telemetry } from '@txbox/core'

/** The result of one run. */
export interface Collected {
  /**
   * The number of expired claims that were removed, with the results that were stored with them: of the inbox, of `sqlDedup`, and of
   * HTTP requests that were handled under a lease.
   */
  readonly inbox: number
  /** The number of dead letters of the outbox, of stored queues and of local consumers that were removed. */
  readonly deadLetters: number
  /** The number of records of redrives, and of ended subscriptions, that were removed. */
  readonly redrives: number
  /** The number of dead letters of version buffers that were removed. */
  readonly bufferedDeadLetters: number
  /**
   * The number of rows of handled messages of stored queues that were removed. Receives remove such rows as well, so
   * they remain only in a queue without receivers.
   */
  readonly handled: number
  /** The number of messages in `versionBuffers` that became dead letters because they had waited too long. */
  readonly swept: number
  /** The number of successful batches, including those that found nothing. */
  readonly batches: number
  /** The number of batches that ended with a statement timeout. Each timeout halves the size of the next batch. */
  readonly timeouts: number
  /** The number of failures for other reasons. The failed work was tried again. */
  readonly failures: number
  readonly durationMs: number
  /** `true` if no row is left to remove; `false` if the run was stopped before that. */
  readonly complete: boolean
}

/** The rows that a run has removed so far. */
export type Progress = Pick<
  Collected,
  'inbox' | 'deadLetters' | 'redrives' | 'bufferedDeadLetters' | 'handled'
>

/** The part of a version buffer that a collector uses. */
export interface SweptBuffer {
  /** Turns messages that have waited too long into dead letters. Ends early when the signal is aborted. */
  sweep(options: { readonly signal: AbortSignal }): Promise<{ readonly deadLettered: number }>
}

/** The events of a collector, for logs and metrics. An error that a listener throws does not disturb the collector. */
export interface GarbageCollectorEvents {
  /** A run has ended, whether started by the interval or by `runOnce`. */
  collected: Collected
  /** A batch, or the sweep of a version buffer, has taken more than a minute and has not ended. Reported again each minute. */
  slow: { readonly durationMs: number }
  /**
   * Ten batches in a row have failed, or a listener or `onProgress` has thrown. A series of failures is reported only
   * once, until a batch succeeds again. The collector continues. Without a listener and without a `logger`, the first
   * error becomes a process warning.
   */
  error: { error: unknown }
}

export interface GarbageCollectorOptions {
  /** A database with a `db`. The collector uses one connection at a time, and none between batches. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the collector opens no transactions of the user's type
  database: ConnectedDatabase<any>
  /**
   * The maximum number of rows in one transaction, 1 to 10,000. A statement timeout, or a batch that takes longer than
   * a second, halves the current size; the next run begins with twice the last size. @default 1000
   */
  batchSize?: number | undefined
  /** The pause between two runs after `start`, 1 s to 24 h. @default 60_000 */
  intervalMs?: number | undefined
  /**
   * The pause between two batches, 0 to 1 h, which keeps a large collection from overloading the database.
   *
   * @default 50
   */
  pauseMs?: number | undefined
  /**
   * How long records of redrives and of ended subscriptions are kept, and dead letters of the outbox, of stored queues, of
   * local consumers and of version buffers: 0 or more milliseconds. `Infinity` keeps them forever. @default 30 days
   */
  deadLetterRetentionMs?: number | undefined
  /**
   * Version buffers whose `sweep` is called at the end of each run. Pass the buffers of your program: how long a
   * message may wait is an option of its buffer. `txbox gc` sweeps no buffers. @default []
   */
  versionBuffers?: readonly SweptBuffer[] | undefined
  /**
   * A logger with pino's argument order, or `consoleLogger()`. Without a logger, the first error that has no listener
   * becomes a process warning with the code `TXBOX_UNHEARD_ERROR`; `false` suppresses the warning.
   */
  logger?: Logger | false | undefined
  /**
   * The telemetry that receives metrics.
   *
   * @default the telemetry that is registered for the process, such as by `import '@txbox/opentelemetry/register'`
   */
  telemetry?: Telemetry | undefined
  /** Aborting the signal stops the collector permanently: a later `start` does nothing. */
  signal?: AbortSignal | undefined
}

export interface RunOptions {
  /** Stops this run after the current batch. The run resolves with the result so far. */
  signal?: AbortSignal | undefined
  /** Called after each batch with the rows removed by this run so far. */
  onProgress?: ((soFar: Progress) => void) | undefined
}

/** Removes rows that are no longer needed. */
export interface GarbageCollector {
  /**
   * Removes all rows that have expired by now, for cron jobs and tests. Resolves when no such row is left, or when the
   * run is stopped.
   *
   * @throws {SchemaError | DatabaseUnavailableError} when the run cannot begin.
   * @throws {GarbageCollectionError} when ten batches in a row have failed.
   */
  runOnce(options?: RunOptions): Promise<Collected>
  /**
   * Starts the first run now, and further runs every `intervalMs`, until the collector is stopped.
   *
   * @throws {SchemaError | DatabaseUnavailableError} when the collector cannot begin.
   */
  start(): Promise<void>
  /**
   * Stops all runs after their current batch. Resolves when they have ended, or after `timeoutMs`. The collector can be
   * started again.
   */
  stop(options?: {
    /** 0 to 1 h. @default 10_000 */
    timeoutMs?: number | undefined
  }): Promise<void>
  /** @returns a function that removes the listener. */
  on<E extends keyof GarbageCollectorEvents>(
    event: E,
    listener: (event: GarbageCollectorEvents[E]) => void,
  ): () => void
}
