/** As long as the relay parks a message that was rejected without counting. */
const PAUSE_MS = 30_000

/** Whether a message may be sent: with all others, as the one that tests whether the pause can end, or not now. */
type Admission = 'together' | 'probe' | 'not-now'

/**
 * Destinations, such as routing keys and hosts, to which no message is sent for 30 s, because the last ones were not taken. After each
 * pause, one message is sent to the destination, until one is taken.
 */
export class PausedKeys {
  /** The end of the pause of each destination, on the monotonic clock, in the order of these ends. */
  readonly #until = new Map<string, number>()

  /** Begins a pause. */
  pause(destination: string): void {
    const now = performance.now()
    this.#begin(destination, now)
    // Destinations to which nothing was sent after their pause are out of use.
    for (const [paused, until] of this.#until) {
      if (until >= now - PAUSE_MS) break
      this.#until.delete(paused)
    }
  }

  /** Decides how a message may be sent to this destination. The message is the probe at most once after each pause. */
  admission(destination: string): Admission {
    const until = this.#until.get(destination)
    if (until === undefined) return 'together'
    const now = performance.now()
    if (now < until) return 'not-now'
    this.#begin(destination, now)
    return 'probe'
  }

  /** Ends the pause of a destination. */
  resume(destination: string): void {
    this.#until.delete(destination)
  }

  #begin(destination: string, now: number): void {
    this.#until.delete(destination)
    this.#until.set(destination, now + PAUSE_MS)
  }
}
