/** How long a measured offset is used. */
const MEASURED_MS = 60_000

/**
 * The clock of the database, by its offset from the monotonic clock of this process. The clock of the process may be wrong: a
 * message that is wrongly too old is accepted without an effect.
 */
export class DatabaseClock {
  #offsetMs: number | undefined
  #measuredAt = -Infinity
  #isMeasuring = false

  /** Whether the offset must be measured before the next use. While a call measures it again, other calls use the old offset. */
  get isStale(): boolean {
    if (this.#offsetMs === undefined) return true
    return !this.#isMeasuring && performance.now() - this.#measuredAt >= MEASURED_MS
  }

  /** The time of the database, in milliseconds since 1970, and earlier by the time of a round trip. */
  get now(): number {
    return performance.now() + (this.#offsetMs ?? Number.NaN)
  }

  /** @param ask returns the time of the database. */
  async measure(ask: () => Promise<Date>): Promise<void> {
    this.#isMeasuring = true
    try {
      const at = await ask()
      this.#measuredAt = performance.now()
      this.#offsetMs = at.getTime() - this.#measuredAt
    } finally {
      this.#isMeasuring = false
    }
  }
}
