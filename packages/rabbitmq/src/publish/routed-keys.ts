import { PausedKeys } from '@txbox/core/internal'

/** How many routing keys are remembered at least, and half of how many are remembered at most. */
const REMEMBERED = 10_000

/**
 * The routing keys that were routed to a queue, as far as this publisher has seen. If such a key is routed to no queue any more, a
 * binding or a queue is away: its messages wait, and after each pause one of them is sent. A key that was never routed may be
 * misspelt, which must come to light: its messages are counted, and become dead letters.
 */
export class RoutedKeys {
  /** The keys that were used last. If there are too many, they become the older keys, which are forgotten. */
  #recent = new Set<string>()
  #older: ReadonlySet<string> = new Set()
  readonly #paused = new PausedKeys()

  /** Must be called when the broker has routed a message of this key to a queue. */
  routed(routingKey: string): void {
    this.#paused.resume(routingKey)
    if (this.#recent.has(routingKey)) return
    if (this.#recent.size >= REMEMBERED) {
      this.#older = this.#recent
      this.#recent = new Set()
    }
    this.#recent.add(routingKey)
  }

  /** Must be called when the broker has returned a message of this key. @returns whether the key was routed before. */
  returned(routingKey: string): boolean {
    const wasRouted = this.#recent.has(routingKey) || this.#older.has(routingKey)
    if (wasRouted) this.#paused.pause(routingKey)
    return wasRouted
  }

  /** Whether a message of this key may be sent now. */
  admits(routingKey: string): boolean {
    return this.#paused.admission(routingKey) !== 'not-now'
  }
}
