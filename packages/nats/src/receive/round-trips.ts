/** How often the server is asked within the lease of a delivery. */
const TRIPS_A_LEASE = 6
const LONGEST_INTERVAL_MS = 5000

/**
 * Determines an instant after which the server has sent the messages that are read from a connection now. After a process was
 * suspended, its event loop blocked or its network interrupted, it reads messages that were delivered to it long ago.
 *
 * The server answers in order: a message that is read behind an answer was sent after the question.
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

  /** Messages that are read now were sent after this instant, on the monotonic clock of this process. */
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
