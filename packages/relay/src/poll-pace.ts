import { setTimeout as pause } from 'node:timers/promises'

/** Looks that news ask for begin this far apart at least: one look sees all that comes in between. */
const NEWS_APART_MS = 2
/**
 * Under a steady load a look gathers longer, so that a look, a read and a settlement are shared by more messages. At 1000
 * messages a second that was 0.47 queries a message instead of 1.56, by 16 producers that commit singly. Up to 200 a second nothing is gathered, so that
 * latency stays as it is; beyond 1000 a second the time shrinks, since as many messages come in a shorter time.
 */
const GATHER = { fromRate: 200, atRate: 1000, ms: 95 } as const

/** How long the poller waits before it looks again: short while there is something, ever longer when there is nothing. */
export class PollPace {
  readonly #min: number
  readonly #max: number
  #ms: number
  /** Ends a wait; another each time. */
  #woken = new AbortController()
  #lookedAt = -Infinity
  #stopped = false
  /** Messages moved in about the last second: each counts less the longer ago it was. */
  #rate = 0
  #ratedAt = performance.now()

  constructor({ min, max }: { readonly min: number; readonly max: number }) {
    this.#min = min
    this.#max = max
    this.#ms = min
  }

  /** Messages have been published: more may come soon. */
  moved(count: number): void {
    this.#ms = this.#min
    this.#rate = this.#rateAt(performance.now()) + count
  }

  hurry(): void {
    this.#ms = this.#min
  }

  slacken(): void {
    this.#ms = Math.min(this.#max, this.#ms * 1.5)
  }

  /** There is news. However many come while the poller is at work, it looks once more. */
  wake(): void {
    this.#woken.abort()
  }

  stop(): void {
    this.#stopped = true
    this.#woken.abort()
  }

  async wait(): Promise<void> {
    const { signal } = this.#woken
    const gatherMs = this.#gatherMs()
    await pause(Math.max(this.#ms, gatherMs), undefined, { signal }).catch(() => undefined)
    if (this.#stopped) return
    if (signal.aborted) {
      // The first news after a quiet time do not wait; news that come without end are gathered.
      const earlyMs = this.#lookedAt + Math.max(NEWS_APART_MS, gatherMs) - performance.now()
      if (earlyMs > 0) await pause(Math.ceil(earlyMs))
      // Only now: the look that follows sees all that has come meanwhile.
      this.#woken = new AbortController()
    }
    this.#lookedAt = performance.now()
  }

  /** Messages come in so steadily that looks are further apart. */
  get isGathering(): boolean {
    return this.#gatherMs() > 0
  }

  #gatherMs(): number {
    const rate = this.#rateAt(performance.now())
    if (rate > GATHER.atRate) return (GATHER.ms * GATHER.atRate) / rate
    return GATHER.ms * Math.max(0, (rate - GATHER.fromRate) / (GATHER.atRate - GATHER.fromRate))
  }

  #rateAt(now: number): number {
    const rate = this.#rate * Math.exp((this.#ratedAt - now) / 1000)
    this.#ratedAt = now
    return (this.#rate = rate)
  }
}
