import { exponentialBackoff } from '@txbox/core'

const PAUSES = exponentialBackoff({ minMs: 100, maxMs: 30_000, attempts: 1000 })

/** While the publisher throws, the relay pauses as a whole; the pauses grow until a call succeeds. */
export class PublisherOutage {
  #failures = 0
  #noted = -Infinity
  #until = 0

  /** How long to wait now, in milliseconds; 0 when there is no outage. */
  remainingMs(now: number): number {
    return Math.max(0, this.#until - now)
  }

  /**
   * → the pause that begins now; `undefined` when one began after this call had been begun: calls that fail together
   * count once.
   */
  failed(begun: number, now: number): number | undefined {
    if (begun <= this.#noted) return undefined
    this.#noted = now
    const pauseMs = PAUSES.delayMs(++this.#failures, Math.random)
    this.#until = now + pauseMs
    return pauseMs
  }

  succeeded(): void {
    this.#failures = 0
  }
}
