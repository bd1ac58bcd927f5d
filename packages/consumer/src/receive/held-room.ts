/**
 * Limits the deliveries that are held although nobody handles them: those that wait for a retry, and those whose dead letter
 * cannot be published. They take the room of messages that could be handled, so they have half of it at most.
 */
export class HeldRoom {
  /** The maximum number of deliveries that are held without being handled: half of the prefetch, and at least one. */
  readonly limit: number
  /** Called when handlers may begin again. */
  whenUnblocked: () => void = () => undefined
  readonly #held = new Set<object>()
  /** The deliveries that may have to stay until the consumer stops. */
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

  /** Whether no handler may begin, because its message might have to stay, too, and there is no room for another one. */
  get isBlocked(): boolean {
    return this.#stuck.size >= this.limit
  }

  /** @returns whether there was room for the delivery. A delivery that is held already has room. */
  enter(delivery: object): boolean {
    if (this.isFull && !this.#held.has(delivery)) return false
    this.#held.add(delivery)
    return true
  }

  /**
   * Takes a delivery for which there may be no room, because its message can no longer be handled.
   *
   * @param how `mayStay` says whether it may have to stay until the consumer stops: its dead letter is refused for good, or
   *   nothing is known yet.
   */
  keep(delivery: object, how: { readonly mayStay: boolean }): void {
    this.#held.add(delivery)
    if (how.mayStay) this.#stuck.add(delivery)
    else this.#unstick(delivery)
  }

  leave(delivery: object): void {
    this.#held.delete(delivery)
    this.#unstick(delivery)
  }

  #unstick(delivery: object): void {
    const wasBlocked = this.isBlocked
    this.#stuck.delete(delivery)
    if (wasBlocked && !this.isBlocked) this.whenUnblocked()
  }
}
