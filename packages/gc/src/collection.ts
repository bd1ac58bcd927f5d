import { setTimeout as pause } from 'node:timers/promises'
import {
  GarbageCollectionError,
  exponentialBackoff,
  isTxboxError,
  type GarbageStore,
  type Removal,
} from '@txbox/core'
import type { BatchSize } from './batch-size.ts'
import type { Collected, Progress, SweptBuffer } from './garbage-collector.ts'

/** That many failures in a row are no hiccup. Halving gets from a thousand rows to one in as many. */
const FAILURES = 10

const PAUSES = exponentialBackoff({ minMs: 100, maxMs: 500, attempts: FAILURES })

export interface CollectionTools {
  readonly store: GarbageStore
  readonly batchSize: BatchSize
  readonly pauseMs: number
  readonly deadLetterRetentionMs: number
  readonly versionBuffers: readonly SweptBuffer[]
  /** Stops within one batch. */
  readonly signal: AbortSignal
  readonly progress: (soFar: Progress) => void
  /** A batch has succeeded: what was wrong is over. */
  readonly succeeded: () => void
}

type Kind = keyof Progress
type RemoveBatch = (limit: number, from: string | undefined) => Promise<Removal | 'timed-out'>

/** One run over all that can be removed now. */
export class Collection {
  readonly #tools: CollectionTools
  readonly #figures = {
    inbox: 0,
    deadLetters: 0,
    redrives: 0,
    bufferedDeadLetters: 0,
    swept: 0,
    batches: 0,
    timeouts: 0,
    failures: 0,
  }
  #inARow = 0

  constructor(tools: CollectionTools) {
    this.#tools = tools
  }

  /** @throws {GarbageCollectionError} when ten batches in a row have failed. */
  async run(): Promise<Collected> {
    const { store, deadLetterRetentionMs, signal, batchSize } = this.#tools
    const startedAt = performance.now()
    batchSize.begin()
    await this.#remove('inbox', (limit, from) => store.removeExpiredClaims(limit, from))
    if (Number.isFinite(deadLetterRetentionMs)) {
      await this.#remove('deadLetters', (limit, from) =>
        store.removeDeadLetters(limit, from, deadLetterRetentionMs),
      )
      await this.#remove('redrives', (limit, from) =>
        store.removeRedrives(limit, from, deadLetterRetentionMs),
      )
      await this.#remove('bufferedDeadLetters', (limit, from) =>
        store.removeBufferedDeadLetters(limit, from, deadLetterRetentionMs),
      )
    }
    await this.#sweep()
    const { inbox, deadLetters } = this.#figures
    const durationMs = performance.now() - startedAt
    await this.#untilDone(() => store.record({ inbox, deadLetters, durationMs }))
    return { ...this.#figures, durationMs, complete: !signal.aborted }
  }

  /** Sweeps run last, since a sweep waits for any transaction that works on a key with something overdue. */
  async #sweep(): Promise<void> {
    const { versionBuffers, signal } = this.#tools
    for (const buffer of versionBuffers) {
      const swept = await this.#untilDone(() => buffer.sweep({ signal }))
      this.#figures.swept += swept?.deadLettered ?? 0
    }
  }

  /** Batch after batch, until there is nothing more. */
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
        throw new StatementTimeout(`A statement timeout has cut off a batch of ${limit} rows.`)
      })
      if (removal === undefined) return
      this.#figures.batches += 1
      this.#figures[kind] += removal.removed
      const { inbox, deadLetters, redrives, bufferedDeadLetters } = this.#figures
      this.#tools.progress({ inbox, deadLetters, redrives, bufferedDeadLetters })
      if (!removal.more) return
      from = removal.next ?? from
      await this.#pause(pauseMs)
    }
  }

  /** Tries again after a pause. → nothing when it was stopped meanwhile */
  async #untilDone<R>(work: () => Promise<R>): Promise<R | undefined> {
    while (!this.#tools.signal.aborted) {
      try {
        const result = await work()
        this.#inARow = 0
        this.#tools.succeeded()
        return result
      } catch (error) {
        await this.#failed(error)
      }
    }
    return undefined
  }

  async #failed(error: unknown): Promise<void> {
    // No pause mends it.
    if (isTxboxError(error) && error.code === 'TXBOX_SCHEMA') throw error
    const timeout = error instanceof StatementTimeout
    if (!timeout) this.#figures.failures += 1
    this.#inARow += 1
    if (this.#inARow === FAILURES) {
      const said = error instanceof Error ? error.message : String(error)
      throw new GarbageCollectionError(
        `Garbage collection: ${FAILURES} batches in a row have failed, the last one so: ${said} What was removed before ` +
          'stays removed; the next run goes on from there.',
        { cause: error },
      )
    }
    await this.#pause(timeout ? this.#tools.pauseMs : PAUSES.delayMs(this.#inARow, Math.random))
  }

  /** Ends early when the run is stopped, which the loops see for themselves. */
  async #pause(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.#tools.signal }).catch(() => undefined)
  }
}

class StatementTimeout extends Error {}
