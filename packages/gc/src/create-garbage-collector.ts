import { LIMITS, days, hours } from '@txbox/core'
import type { ConnectedPorts, GarbageStore } from '@txbox/core/ports'
import {
  OptionChecker,
  connectedPortsOf,
  loggerOption,
  pause,
  stopTimeout,
  telemetryOption,
  within,
  type FindTelemetry,
} from '@txbox/core/internal'
import { BatchSize } from './batch-size.ts'
import { recordCollected } from './collector-metrics.ts'
import { Collection, FAILURE_PAUSES, type FailurePauses } from './collection.ts'
import type {
  Collected,
  GarbageCollector,
  GarbageCollectorEvents,
  GarbageCollectorOptions,
  Progress,
  RunOptions,
  SweptBuffer,
} from './garbage-collector.ts'
import { collectorLog, type CollectorLog } from './log-events.ts'

interface Settings {
  readonly batchSize: number
  readonly intervalMs: number
  readonly pauseMs: number
  readonly deadLetterRetentionMs: number
  readonly versionBuffers: readonly SweptBuffer[]
  readonly failurePauses: FailurePauses
  readonly slowMs: number
  readonly telemetry: FindTelemetry
}

/** How long a batch may take before it is reported as slow, and how often that is reported again. */
const SLOW_MS = 60_000

/**
 * Creates a garbage collector. A collector removes expired claims, dead letters and records of redrives whose retention
 * has passed, and the rows that handled messages leave in stored queues. It works in small transactions with pauses
 * between them, so that other traffic is hardly affected. It also sweeps version buffers. Any number of collectors may
 * run concurrently.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option, or a database without a `db`.
 */
export function createGarbageCollector(options: GarbageCollectorOptions): GarbageCollector {
  return createCollectorWith(FAILURE_PAUSES, options)
}

/** Creates a collector with other pauses after failures and other limits, so that tests need not wait for the usual ones. */
export function createCollectorWith(
  failurePauses: FailurePauses,
  options: GarbageCollectorOptions,
  slowMs = SLOW_MS,
): GarbageCollector {
  const where = 'createGarbageCollector'
  const check = new OptionChecker(where, options).known(
    'database',
    'batchSize',
    'intervalMs',
    'pauseMs',
    'deadLetterRetentionMs',
    'versionBuffers',
    'logger',
    'telemetry',
    'signal',
  )
  const log = collectorLog(loggerOption(check, options.logger))
  const collector = new PeriodicCollector(connectedPortsOf(where, options.database), log, {
    batchSize: check.integer('batchSize', { min: 1, max: 10_000, default: 1000 }),
    intervalMs: check.milliseconds('intervalMs', { min: 1000, max: hours(24), default: 60_000 }),
    pauseMs: check.milliseconds('pauseMs', { min: 0, max: hours(1), default: 50 }),
    deadLetterRetentionMs: retentionOf(check, options.deadLetterRetentionMs),
    versionBuffers: buffersOf(check, options.versionBuffers ?? []),
    failurePauses,
    slowMs,
    telemetry: telemetryOption(check, options.telemetry),
  })
  const signal = check.signal('signal')
  if (signal?.aborted === true) collector.abort()
  signal?.addEventListener('abort', () => collector.abort(), { once: true })
  return collector
}

class PeriodicCollector implements GarbageCollector {
  readonly #ports: ConnectedPorts
  readonly #store: GarbageStore
  readonly #settings: Settings
  readonly #batchSize: BatchSize
  readonly #log: CollectorLog
  #unuse: (() => void) | undefined
  /** The operations that `stop` waits for. */
  readonly #inFlight = new Set<Promise<unknown>>()
  #stopping = new AbortController()
  #loop: Promise<void> | undefined
  /** Whether a failure has been reported since the last batch that succeeded. */
  #failureReported = false
  #ended = false

  constructor(ports: ConnectedPorts, log: CollectorLog, settings: Settings) {
    this.#log = log
    this.#ports = ports
    this.#store = ports.garbage()
    this.#settings = settings
    this.#batchSize = new BatchSize(settings.batchSize)
  }

  async runOnce(options: RunOptions = {}): Promise<Collected> {
    const check = new OptionChecker('runOnce', options).known('signal', 'onProgress')
    const signal = check.signal('signal')
    const onProgress = check.callback<NonNullable<RunOptions['onProgress']>>('onProgress')
    const stop = this.#stopping.signal
    return this.#track(async () => {
      await this.#ports.checkSchema()
      return this.#collect(signal === undefined ? stop : AbortSignal.any([signal, stop]), onProgress)
    })
  }

  async start(): Promise<void> {
    if (this.#loop !== undefined || this.#ended) return
    const { signal } = this.#stopping
    const begun = this.#track(() => this.#ports.checkSchema())
    this.#unuse ??= this.#ports.useConnections?.('garbage collector', 1)
    // The loop is assigned before the first await, so that two calls of `start` start only one loop.
    const loop = this.#track(async () => {
      await begun
      await this.#collectByInterval(signal)
    })
    this.#loop = loop
    loop.catch(() => {
      // A later start may have begun another loop.
      if (this.#loop === loop) this.#loop = undefined
    })
    await begun
    // A stop whose time limit was short may have come first.
    if (this.#loop === loop) this.#log.started()
  }

  async stop(options: { timeoutMs?: number | undefined } = {}): Promise<void> {
    const timeoutMs = stopTimeout(options)
    this.#stopping.abort()
    await within(Promise.allSettled(this.#inFlight), timeoutMs, () => undefined)
    this.#log.stopped()
    this.#unuse?.()
    this.#unuse = undefined
    this.#loop = undefined
    if (!this.#ended) this.#stopping = new AbortController()
  }

  /** Stops the collector permanently, when the user's signal is aborted. */
  abort(): void {
    this.#ended = true
    this.#stopping.abort()
  }

  on<E extends keyof GarbageCollectorEvents>(
    event: E,
    listener: (event: GarbageCollectorEvents[E]) => void,
  ): () => void {
    return this.#log.events.on(event, listener)
  }

  async #collectByInterval(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#collect(signal, undefined).catch((error: unknown) => this.#failed(error))
      await pause(this.#settings.intervalMs, signal)
    }
  }

  async #collect(signal: AbortSignal, onProgress: RunOptions['onProgress']): Promise<Collected> {
    const collected = await new Collection({
      store: this.#store,
      batchSize: this.#batchSize,
      pauseMs: this.#settings.pauseMs,
      failurePauses: this.#settings.failurePauses,
      deadLetterRetentionMs: this.#settings.deadLetterRetentionMs,
      versionBuffers: this.#settings.versionBuffers,
      signal,
      slowMs: this.#settings.slowMs,
      slow: (durationMs) => this.#log.events.emit('slow', { durationMs }),
      progress: (soFar) => this.#reportProgress(onProgress, soFar),
      succeeded: () => (this.#failureReported = false),
    }).run()
    const telemetry = this.#settings.telemetry()
    if (telemetry !== undefined) recordCollected(telemetry, collected)
    this.#log.events.emit('collected', collected)
    return collected
  }

  #reportProgress(onProgress: RunOptions['onProgress'], soFar: Progress): void {
    try {
      onProgress?.(soFar)
    } catch (error) {
      this.#emitError(error)
    }
  }

  /** Reports a failure once, until a batch succeeds again. */
  #failed(error: unknown): void {
    if (this.#failureReported) return
    this.#failureReported = true
    this.#emitError(error)
  }

  #emitError(error: unknown): void {
    this.#log.events.emit('error', { error })
  }

  async #track<R>(work: () => Promise<R>): Promise<R> {
    const running = work()
    this.#inFlight.add(running)
    try {
      return await running
    } finally {
      this.#inFlight.delete(running)
    }
  }
}

function buffersOf(check: OptionChecker, buffers: readonly SweptBuffer[]): readonly SweptBuffer[] {
  const given: unknown = buffers
  const areBuffers =
    Array.isArray(given) &&
    given.every((buffer) => typeof Reflect.get(Object(buffer), 'sweep') === 'function')
  if (!areBuffers) throw check.wrong('versionBuffers', 'a list of version buffers')
  return [...buffers]
}

function retentionOf(check: OptionChecker, retentionMs: number | undefined): number {
  if (retentionMs === Infinity) return Infinity
  return check.milliseconds('deadLetterRetentionMs', {
    min: 0,
    max: LIMITS.durationMs,
    default: days(30),
  })
}
