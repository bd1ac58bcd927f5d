/**
 * Limits the deliveries that are held although nobody handles them: those that wait for a retry, and those whose dead letter
 * cannot be published. They take the room of messages that could be handled, so they have half of it at most.
 */
export class HeldRoom {
  /** The maximum number of deliveries that are held without being handled: half of the prefetch, and at least one. */
  readonly limit: number
  readonly #held = new Set<object>()

  constructor(prefetch: number) {
    this.limit = Math.max(1, Math.floor(prefetch / 2))
  }

  get isFull(): boolean {
    return this.#held.size >= this.limit
  }

  get size(): number {
    return this.#held.size
  }

  /** @returns whether there was room for the delivery. A delivery that is held already has room. */
  enter(delivery: object): boolean {
    if (this.isFull && !this.#held.has(delivery)) return false
    this.#held.add(delivery)
    return true
  }

  leave(delivery: object): void {
    this.#held.delete(delivery)
  }
}
