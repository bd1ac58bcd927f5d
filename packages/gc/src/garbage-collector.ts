import type { ConnectedDatabase, Logger } from '@txbox/core'

/** What one run has done. */
export interface Collected {
  /** Expired claims that were removed, with the results that were stored beside them. */
  readonly inbox: number
  /** Dead letters that were removed. */
  readonly deadLetters: number
  /** Records of redrives that were removed. */
  readonly redrives: number
  /** The number of dead letters of version buffers that were removed. */
  readonly bufferedDeadLetters: number
  /**
   * The number of messages that the `versionBuffers` gave up because the messages had waited too long: they are dead
   * letters now.
   */
  readonly swept: number
  /** Short transactions that removed something, or found nothing. */
  readonly batches: number
  /** Batches that a statement timeout cut off; each halves the next. */
  readonly timeouts: number
  /** Batches that failed otherwise, and were tried again. */
  readonly failures: number
  readonly durationMs: number
  /** Nothing is left that could be removed. `false`: it was stopped before. */
  readonly complete: boolean
}

/** The rows that a run has removed so far. */
export type Progress = Pick<Collected, 'inbox' | 'deadLetters' | 'redrives' | 'bufferedDeadLetters'>

/** The part of a version buffer that a collector uses. */
export interface SweptBuffer {
  /** Makes dead letters of the messages that have waited too long, and ends early when the signal is aborted. */
  sweep(options: { readonly signal: AbortSignal }): Promise<{ readonly deadLettered: number }>
}

/** What a collector tells. Events are for logs and metrics: a listener that throws disturbs nothing. */
export interface GarbageCollectorEvents {
  /** A run is over, by interval or by `runOnce`. */
  collected: Collected
  /**
   * Ten batches in a row have failed, told once until one succeeds again; or a listener or `onProgress` has thrown. The
   * collector goes on. Without a listener and without a `logger`, the first error is a process warning.
   */
  error: { error: unknown }
}

export interface GarbageCollectorOptions {
  /** A database with a `db`. The collector uses one connection of it at a time, and none in between. */
  // oxlint-disable-next-line typescript/no-explicit-any -- the collector opens no transactions of the user's type
  database: ConnectedDatabase<any>
  /**
   * The most rows in one transaction, 1 to 10 000. A statement timeout halves it, and so does a batch that takes longer
   * than a second; the next run begins with twice of what has worked. @default 1000
   */
  batchSize?: number | undefined
  /** From the end of one run to the next, after `start`; 1 s to 24 h. @default 60 000 */
  intervalMs?: number | undefined
  /** From the end of one batch to the next, 0 to 1 h: what keeps a large collection from taking the database. @default 50 */
  pauseMs?: number | undefined
  /**
   * How long a dead letter, of the outbox or of a version buffer, is kept after it died, and how long the record of a
   * redrive, in milliseconds; from 0. `Infinity` keeps them forever. @default 30 days
   */
  deadLetterRetentionMs?: number | undefined
  /**
   * Version buffers whose `sweep` runs at the end of each run. How long a message may wait is an option of its buffer, so
   * the buffers must be those of your program; `txbox gc` sweeps no buffers. @default no buffers
   */
  versionBuffers?: readonly SweptBuffer[] | undefined
  /**
   * The logger of the collector: an object with pino's argument order, or `consoleLogger()`. Without a logger, the first
   * error that has no listener is a process warning with the code `TXBOX_UNHEARD_ERROR`; `false` silences the warning.
   */
  logger?: Logger | false | undefined
  /** Stops the collector. */
  signal?: AbortSignal | undefined
}

export interface RunOptions {
  /** Stops this run within one batch. It resolves with what has been done. */
  signal?: AbortSignal | undefined
  /** Called after each batch with the rows removed by this run so far. */
  onProgress?: ((soFar: Progress) => void) | undefined
}

/** The worker that removes what nobody needs any more. */
export interface GarbageCollector {
  /**
   * Removes all that has expired by now, and resolves when nothing is left, or when it is stopped. For cron and tests.
   *
   * @throws {SchemaError | DatabaseUnavailableError} when it cannot begin.
   * @throws {GarbageCollectionError} when ten batches in a row have failed.
   */
  runOnce(options?: RunOptions): Promise<Collected>
  /**
   * Collects now and then by interval, until it is stopped. Any number of collectors may run.
   *
   * @throws {SchemaError | DatabaseUnavailableError} when it cannot begin.
   */
  start(): Promise<void>
  /**
   * Ends all runs within one batch. Resolves by the deadline at the latest. It can be started again.
   */
  stop(options?: {
    /** 0 to 1 h. @default 10 000 */
    timeoutMs?: number | undefined
  }): Promise<void>
  /** Calls `listener` for each event. → a function that ends it. */
  on<E extends keyof GarbageCollectorEvents>(
    event: E,
    listener: (event: GarbageCollectorEvents[E]) => void,
  ): () => void
}
