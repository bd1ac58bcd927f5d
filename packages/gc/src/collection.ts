import { GarbageCollectionError, exponentialBackoff, isTxboxError, type RetryPolicy } from '@txbox/core'
import type { GarbageStore, Removal } from '@txbox/core/ports'
import { pause } from '@txbox/core/internal'
import type { BatchSize } from './batch-size.ts'
import type { Collected, Progress, SweptBuffer } from './garbage-collector.ts'

/**
 * The number of failures in a row that end a run. Ten timeouts are also enough to halve a batch of 1000 rows until it
 * has one row.
 */
const MAX_FAILURES = 10

export const FAILURE_PAUSES: FailurePauses = exponentialBackoff({
  minMs: 100,
  maxMs: 500,
  attempts: MAX_FAILURES,
})

export type FailurePauses = Pick<RetryPolicy, 'delayMs'>

interface CollectionTools {
  readonly store: GarbageStore
  readonly batchSize: BatchSize
  readonly pauseMs: number
  readonly failurePauses: FailurePauses
  readonly deadLetterRetentionMs: number
  readonly versionBuffers: readonly SweptBuffer[]
  /** Stops the run after the current batch. */
  readonly signal: AbortSignal
  readonly progress: (soFar: Progress) => void
  /** How long a batch may take before `slow` is called, and how often `slow` is called again. */
  readonly slowMs: number
  readonly slow: (durationMs: number) => void
  /** Called when a batch has succeeded, which ends any earlier series of failures. */
  readonly succeeded: () => void
}

type Kind = keyof Progress
type RemoveBatch = (limit: number, from: string | undefined) => Promise<Removal | 'timed-out'>

/** One run, which removes all rows that can be removed now. */
export class Collection {
  readonly #tools: CollectionTools
  readonly #figures = {
    inbox: 0,
    deadLetters: 0,
    redrives: 0,
    bufferedDeadLetters: 0,
    handled: 0,
    swept: 0,
    batches: 0,
    timeouts: 0,
    failures: 0,
  }
  #failuresInARow = 0

  constructor(tools: CollectionTools) {
    this.#tools = tools
  }

  /** @throws {GarbageCollectionError} when ten batches in a row have failed. */
  async run(): Promise<Collected> {
    const { store, deadLetterRetentionMs, signal, batchSize } = this.#tools
    const startedAt = performance.now()
    batchSize.begin()
    await this.#remove('inbox', (limit, from) => store.removeExpiredClaims(limit, from))
    await this.#remove('inbox', (limit, from) => store.removeExpiredLeases(limit, from))
    if (Number.isFinite(deadLetterRetentionMs)) {
      await this.#remove('deadLetters', (limit, from) =>
        store.removeDeadLetters(limit, from, deadLetterRetentionMs),
      )
      await this.#remove('deadLetters', (limit, from) =>
        store.removeQueueDeadLetters(limit, from, deadLetterRetentionMs),
      )
      await this.#remove('deadLetters', (limit, from) =>
        store.removeLocalDeadLetters(limit, from, deadLetterRetentionMs),
      )
      await this.#remove('redrives', (limit, from) =>
        store.removeRedrives(limit, from, deadLetterRetentionMs),
      )
      await this.#remove('redrives', (limit, from) =>
        store.removeRemovals(limit, from, deadLetterRetentionMs),
      )
      await this.#remove('bufferedDeadLetters', (limit, from) =>
        store.removeBufferedDeadLetters(limit, from, deadLetterRetentionMs),
      )
    }
    await this.#remove('handled', (limit, from) => store.removeHandled(limit, from))
    await this.#sweep()
    const { inbox, deadLetters } = this.#figures
    const durationMs = performance.now() - startedAt
    await this.#untilDone(() => store.record({ inbox, deadLetters, durationMs }))
    return { ...this.#figures, durationMs, complete: !signal.aborted }
  }

  /** Sweeps run last, because a sweep waits for transactions that work on a key with an overdue message. */
  async #sweep(): Promise<void> {
    const { versionBuffers, signal } = this.#tools
    for (const buffer of versionBuffers) {
      const swept = await this.#untilDone(() => buffer.sweep({ signal }))
      this.#figures.swept += swept?.deadLettered ?? 0
    }
  }

  async #remove(kind: Kind, removeBatch: RemoveBatch): Promise<void> {
    const { batchSize, signal, pauseMs } = this.#tools
    let from: string | undefined
    while (!signal.aborted) {
      const removal = await this.#untilDone(async () => {
        const { limit } = batchSize
        const startedAt = performance.now()
        const result = await removeBatch(limit, from)
        if (result !== 'timed-out') {
          batchSize.took(performance.now() - startedAt)
          return result
        }
        this.#figures.timeouts += 1
        batchSize.halve()
        throw new StatementTimeout(`A statement timeout ended a batch of ${limit} rows.`)
      })
      if (removal === undefined) return
      this.#figures.batches += 1
      this.#figures[kind] += removal.removed
      const { inbox, deadLetters, redrives, bufferedDeadLetters, handled } = this.#figures
      this.#tools.progress({ inbox, deadLetters, redrives, bufferedDeadLetters, handled })
      if (!removal.more) return
      from = removal.next ?? from
      await pause(pauseMs, signal)
    }
  }

  /**
   * Repeats `work`, with a pause after each failure, until it succeeds.
   *
   * @returns `undefined` if the run was stopped before that.
   */
  async #untilDone<R>(work: () => Promise<R>): Promise<R | undefined> {
    while (!this.#tools.signal.aborted) {
      try {
        const result = await this.#timed(work)
        this.#failuresInARow = 0
        this.#tools.succeeded()
        return result
      } catch (error) {
        await this.#failed(error)
      }
    }
    return undefined
  }

  /** Reports work that does not end: while a statement hangs, the run shows no other sign. */
  async #timed<R>(work: () => Promise<R>): Promise<R> {
    const { slow, slowMs } = this.#tools
    const startedAt = performance.now()
    const timer = setInterval(() => slow(performance.now() - startedAt), slowMs)
    try {
      return await work()
    } finally {
      clearInterval(timer)
    }
  }

  async #failed(error: unknown): Promise<void> {
    // A wrong revision of the tables is not worth a retry: waiting does not fix it.
    if (isTxboxError(error) && error.code === 'TXBOX_SCHEMA') throw error
    const timeout = error instanceof StatementTimeout
    if (!timeout) this.#figures.failures += 1
    this.#failuresInARow += 1
    if (this.#failuresInARow === MAX_FAILURES) {
      const reason = error instanceof Error ? error.message : String(error)
      throw new GarbageCollectionError(
        `Garbage collection: ${MAX_FAILURES} batches in a row have failed. The last error: ${reason} Rows that earlier batches ` +
          'removed stay removed; the next run continues from there.',
        { cause: error },
      )
    }
    const { pauseMs, failurePauses, signal } = this.#tools
    await pause(timeout ? pauseMs : failurePauses.delayMs(this.#failuresInARow, Math.random), signal)
  }
}

class StatementTimeout extends Error {}
