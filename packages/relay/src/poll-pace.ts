import { setTimeout as pause } from 'node:timers/promises'

/** Looks that news ask for begin this far apart: what comes in between is seen by one. */
const NEWS_APART_MS = 2

/** How long the poller waits before it looks again: short while there is something, ever longer when there is nothing. */
export class PollPace {
  readonly #min: number
  readonly #max: number
  #ms: number
  /** Ends a wait; another each time. */
  #woken = new AbortController()
  #lookedAt = -Infinity
  #stopped = false

  constructor({ min, max }: { readonly min: number; readonly max: number }) {
    this.#min = min
    this.#max = max
    this.#ms = min
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
    await pause(this.#ms, undefined, { signal }).catch(() => undefined)
    if (this.#stopped) return
    if (signal.aborted) {
      // The first news after a quiet time do not wait; where they come without end, they are gathered.
      const earlyMs = this.#lookedAt + NEWS_APART_MS - performance.now()
      if (earlyMs > 0) await pause(Math.ceil(earlyMs))
      // Only now: what has come meanwhile is seen by the look that follows.
      this.#woken = new AbortController()
    }
    this.#lookedAt = performance.now()
  }
}
