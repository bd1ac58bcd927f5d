/** As long as the relay parks a message that was rejected without counting. */
const PAUSE_MS = 30_000

/** Whether a message may be sent: with all others, as the one that tests whether the pause can end, or not now. */
type Admission = 'together' | 'probe' | 'not-now'

/**
 * Routing keys of which no message is sent for 30 s, because the broker did not take the last ones. After each pause, one message of
 * the key is sent, until the broker takes one.
 */
export class PausedKeys {
  /** The end of the pause of each key, on the monotonic clock, in the order of these ends. */
  readonly #until = new Map<string, number>()

  /** Begins a pause. */
  pause(routingKey: string): void {
    const now = performance.now()
    this.#begin(routingKey, now)
    // Keys of which nothing was sent after their pause are out of use.
    for (const [key, until] of this.#until) {
      if (until >= now - PAUSE_MS) break
      this.#until.delete(key)
    }
  }

  /** Decides how a message of this key may be sent. The message is the probe at most once after each pause. */
  admission(routingKey: string): Admission {
    const until = this.#until.get(routingKey)
    if (until === undefined) return 'together'
    const now = performance.now()
    if (now < until) return 'not-now'
    this.#begin(routingKey, now)
    return 'probe'
  }

  /** Ends the pause of a key. */
  resume(routingKey: string): void {
    this.#until.delete(routingKey)
  }

  #begin(routingKey: string, now: number): void {
    this.#until.delete(routingKey)
    this.#until.set(routingKey, now + PAUSE_MS)
  }
}
