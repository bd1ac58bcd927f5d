import { PausedKeys, RememberedNames } from '@txbox/core/internal'

/**
 * The routing keys that were routed to a queue, as far as this publisher has seen. If such a key is routed to no queue any more, a
 * binding or a queue is away: its messages wait, and after each pause one of them is sent. A key that was never routed may be
 * misspelt, which must come to light: its messages are counted, and become dead letters.
 */
export class RoutedKeys {
  readonly #routed = new RememberedNames()
  readonly #paused = new PausedKeys()

  /** Must be called when the broker has routed a message of this key to a queue. */
  routed(routingKey: string): void {
    this.#paused.resume(routingKey)
    this.#routed.add(routingKey)
  }

  /** Must be called when the broker has returned a message of this key. @returns whether the key was routed before. */
  returned(routingKey: string): boolean {
    const wasRouted = this.#routed.has(routingKey)
    if (wasRouted) this.#paused.pause(routingKey)
    return wasRouted
  }

  /** Whether a message of this key may be sent now. */
  admits(routingKey: string): boolean {
    return this.#paused.admission(routingKey) !== 'not-now'
  }
}
