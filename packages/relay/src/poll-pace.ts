import { setTimeout as pause } from 'node:timers/promises'

/** News that come within this time are one. */
const WOKEN_PAUSE_MS = 1

/** How long the poller waits before it looks again: short while there is something, ever longer when there is nothing. */
export class PollPace {
  readonly #min: number
  readonly #max: number
  #ms: number
  /** Ends a wait; another each time. */
  #woken = new AbortController()
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
    if (!signal.aborted || this.#stopped) return
    this.#woken = new AbortController()
    // Where news come without end, they are gathered.
    await pause(WOKEN_PAUSE_MS)
  }
}
