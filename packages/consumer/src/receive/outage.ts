import { exponentialBackoff } from '@txbox/core'

/** An attempt costs little, and messages wait for the rest of the pause after the outage has ended. */
const PAUSES = exponentialBackoff({ minMs: 100, maxMs: 3000, attempts: 1000 })

/** Counts the failures of an outage, and computes the pause before each new attempt: 0.1 s at first, up to 3 s. */
export class Outage {
  #failures = 0
  #failedAt = -Infinity
  #until = -Infinity

  /**
   * @param startedAt when the attempt began: an attempt that began before the latest failure is part of that failure.
   * @returns the time in milliseconds until the next attempt, and whether this is another failure.
   */
  failed(
    startedAt: number,
    now = performance.now(),
  ): { readonly retryInMs: number; readonly isNew: boolean } {
    const isNew = startedAt > this.#failedAt
    if (isNew) {
      this.#failures += 1
      this.#failedAt = now
      this.#until = now + PAUSES.delayMs(Math.min(this.#failures, 20), Math.random)
    }
    return { retryInMs: Math.max(0, this.#until - now), isNew }
  }

  /** @param startedAt when the attempt began: an attempt that began before the latest failure does not end the outage. */
  succeeded(startedAt: number): void {
    if (startedAt > this.#failedAt) this.#failures = 0
  }

  /** The time in milliseconds until the next attempt. */
  waitMs(now = performance.now()): number {
    return Math.max(0, this.#until - now)
  }
}
