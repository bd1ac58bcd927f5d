import { PausedKeys } from '@txbox/core/internal'

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
  readonly #paused = new PausedKeys()
  /** The keys whose messages may only have waited behind those of a stuck key. */
  readonly #suspects = new Set<string>()

  /** Must be called when messages of this key were not confirmed in time. */
  add(routingKey: string): void {
    this.#suspects.delete(routingKey)
    this.#paused.pause(routingKey)
  }

  /** Must be called when one of these keys has blocked a channel: the next message of each key is sent alone, without a pause. */
  suspect(routingKeys: readonly string[]): void {
    if (this.#suspects.size > MOST_SUSPECTS) this.#suspects.clear()
    for (const key of routingKeys) this.#suspects.add(key)
  }

  /** Decides how a message of this key may be sent. If the key is stuck, one message may be sent alone after each pause. */
  admission(routingKey: string): Admission {
    if (this.#suspects.has(routingKey)) return 'alone'
    const admission = this.#paused.admission(routingKey)
    return admission === 'probe' ? 'alone' : admission
  }

  /** Must be called when the broker has answered for a message of this key. */
  answered(routingKey: string): void {
    this.#paused.resume(routingKey)
    this.#suspects.delete(routingKey)
  }
}
