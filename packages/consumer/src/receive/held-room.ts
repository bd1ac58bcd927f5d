/**
 * Limits the deliveries that are held although nobody handles them: those that wait for a retry, and those whose dead letter
 * cannot be published. They take the room of messages that could be handled, so they have half of it at most.
 */
export class HeldRoom {
  /** The maximum number of deliveries that are held without being handled: half of the prefetch, and at least one. */
  readonly limit: number
  readonly #held = new Set<object>()
  /** The deliveries that stay until the consumer stops. */
  readonly #stuck = new Set<object>()

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

  /** Takes a delivery for which there may be no room, because it can be neither handled nor settled. */
  keep(delivery: object, how: { readonly untilStop: boolean }): void {
    this.#held.add(delivery)
    if (how.untilStop) this.#stuck.add(delivery)
  }

  /** Whether the deliveries that stay until the consumer stops have all of the room. No handler may begin then. */
  get isBlocked(): boolean {
    return this.#stuck.size >= this.limit
  }

  leave(delivery: object): void {
    this.#held.delete(delivery)
    this.#stuck.delete(delivery)
  }
}
