interface KeyInFlight {
  count: number
  /** When the broker last answered for this key, or when the first of these messages was sent. */
  waitingSince: number
}

/**
 * The maximum number of messages of one routing key in flight: a queue that confirms nothing leaves the rest of the
 * window to other queues.
 */
const MOST_OF_ONE_KEY = 1500

/** Counts the messages in flight of each routing key. Times are of the monotonic clock. */
export class InFlightByKey {
  readonly #keys = new Map<string, KeyInFlight>()

  hasRoomFor(routingKey: string): boolean {
    return (this.#keys.get(routingKey)?.count ?? 0) < MOST_OF_ONE_KEY
  }

  /** Since when the messages of this key have had no answer; -Infinity when none is in flight. */
  waitingSince(routingKey: string): number {
    return this.#keys.get(routingKey)?.waitingSince ?? -Infinity
  }

  /** The keys whose messages in flight have had no answer since `time`. */
  unansweredSince(time: number): string[] {
    return [...this.#keys].filter(([, { waitingSince }]) => waitingSince <= time).map(([key]) => key)
  }

  sent(routingKey: string): void {
    const key = this.#keys.get(routingKey)
    if (key === undefined) this.#keys.set(routingKey, { count: 1, waitingSince: performance.now() })
    else key.count += 1
  }

  answered(routingKey: string, at: number): void {
    const key = this.#keys.get(routingKey)
    if (key === undefined) return
    key.waitingSince = at
    key.count -= 1
    if (key.count === 0) this.#keys.delete(routingKey)
  }
}
