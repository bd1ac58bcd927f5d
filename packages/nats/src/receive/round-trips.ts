/** How often the server is asked within the lease of a delivery. */
const TRIPS_A_LEASE = 6
const LONGEST_INTERVAL_MS = 5000

/**
 * Knows after which instant the server has sent what is read from a connection now. A process that was stopped, or whose loop was
 * blocked, reads messages that were delivered to it long ago; so does one behind a network that stood still.
 *
 * The server answers in order: what is read behind an answer was sent after the question.
 */
export class RoundTrips {
  readonly #ask: () => Promise<void>
  readonly #timer: NodeJS.Timeout
  #sentAfter = performance.now()
  #isAsking = false

  /** @param ask sends a question, and resolves when the server has answered. */
  constructor(leaseMs: number, ask: () => Promise<void>) {
    this.#ask = ask
    const intervalMs = Math.min(LONGEST_INTERVAL_MS, leaseMs / TRIPS_A_LEASE)
    this.#timer = setInterval(() => void this.#trip(), intervalMs).unref()
  }

  /** What is read now was sent after this instant, on the monotonic clock of this process. */
  get sentAfter(): number {
    return this.#sentAfter
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  async #trip(): Promise<void> {
    if (this.#isAsking) return
    this.#isAsking = true
    const askedAt = performance.now()
    try {
      await this.#ask()
      this.#sentAfter = askedAt
    } catch {
      // The connection has ended.
    } finally {
      this.#isAsking = false
    }
  }
}
