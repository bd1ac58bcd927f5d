/** How long no message of a stuck key is sent: as long as the relay parks a rejected message. */
const PAUSE_MS = 30_000

/** Above this number, the suspects are forgotten, because their keys may be out of use. */
const MOST_SUSPECTS = 10_000

/** Whether a message may be sent: with the others, only on a channel of its own, or not now. */
type Admission = 'together' | 'alone' | 'not-now'

/**
 * The routing keys whose messages the broker does not confirm, although it answers otherwise: a queue has a problem, such
 * as a quorum queue without a majority. Such messages would take the room of all others, and would be stored again and
 * again once the queue works. So after each pause one message of the key is sent, until the broker answers for it.
 *
 * That message is sent alone: while a quorum queue does not answer, the first message that a channel publishes to it blocks
 * the channel, and with it all messages behind.
 */
export class StuckKeys {
  /** The end of the pause of each stuck key, on the monotonic clock. */
  readonly #pausedUntil = new Map<string, number>()
  /** The keys whose messages may only have waited behind those of a stuck key. */
  readonly #suspects = new Set<string>()

  /** Must be called when messages of this key were not confirmed in time. */
  add(routingKey: string): void {
    this.#suspects.delete(routingKey)
    const now = performance.now()
    // Keys of which nothing was sent after their pause are out of use.
    for (const [key, until] of this.#pausedUntil) if (until < now - PAUSE_MS) this.#pausedUntil.delete(key)
    this.#pausedUntil.set(routingKey, now + PAUSE_MS)
  }

  /** Must be called when one of these keys has blocked a channel: the next message of each key is sent alone, without a pause. */
  suspect(routingKeys: readonly string[]): void {
    if (this.#suspects.size > MOST_SUSPECTS) this.#suspects.clear()
    for (const key of routingKeys) this.#suspects.add(key)
  }

  /** Decides how a message of this key may be sent. If the key is stuck, one message may be sent alone after each pause. */
  admission(routingKey: string): Admission {
    if (this.#suspects.has(routingKey)) return 'alone'
    const until = this.#pausedUntil.get(routingKey)
    if (until === undefined) return 'together'
    const now = performance.now()
    if (now < until) return 'not-now'
    this.#pausedUntil.set(routingKey, now + PAUSE_MS)
    return 'alone'
  }

  /** Must be called when the broker has answered for a message of this key. */
  answered(routingKey: string): void {
    this.#pausedUntil.delete(routingKey)
    this.#suspects.delete(routingKey)
  }
}
