/** How long no message of a stuck key is sent: as long as the relay parks a rejected message. In milliseconds. */
const PAUSE_MS = 30_000

/**
 * The routing keys whose messages the broker does not confirm, although it answers otherwise: a queue has a problem, such
 * as a quorum queue without a majority. Such messages would take the room of all others, and would be stored again and
 * again once the queue works. So after each pause one message of the key is sent, until the broker answers for it.
 */
export class StuckKeys {
  /** The end of the pause of each key, on the monotonic clock. */
  readonly #pausedUntil = new Map<string, number>()

  /** Must be called when messages of this key were not confirmed in time. */
  add(routingKey: string): void {
    const now = performance.now()
    // Keys of which nothing was sent after their pause are out of use.
    for (const [key, until] of this.#pausedUntil) if (until < now - PAUSE_MS) this.#pausedUntil.delete(key)
    this.#pausedUntil.set(routingKey, now + PAUSE_MS)
  }

  /** Whether a message of this key may be sent. If the key is stuck, its next message may be sent after a pause. */
  admits(routingKey: string): boolean {
    if (this.#pausedUntil.size === 0) return true
    const until = this.#pausedUntil.get(routingKey)
    if (until === undefined) return true
    const now = performance.now()
    if (now < until) return false
    this.#pausedUntil.set(routingKey, now + PAUSE_MS)
    return true
  }

  /** Must be called when the broker has answered for a message of this key. */
  answered(routingKey: string): void {
    this.#pausedUntil.delete(routingKey)
  }
}
