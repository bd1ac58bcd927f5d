import type { InboxMessage } from '@txbox/core'

/** The maximum number of messages that are remembered. */
const MAX_MESSAGES = 10_000

/**
 * Remembers the delivery counts of messages that were returned to the source. The source's own count, if it has one, does
 * not include the attempts for which the consumer held the delivery.
 */
export class RememberedDeliveries {
  readonly #deliveries = new Map<string, number>()

  remember(message: InboxMessage, deliveries: number): void {
    const name = nameOf(message)
    this.#deliveries.delete(name)
    this.#deliveries.set(name, deliveries)
    const [oldest] = this.#deliveries.keys()
    if (this.#deliveries.size > MAX_MESSAGES && oldest !== undefined) this.#deliveries.delete(oldest)
  }

  of(message: InboxMessage): number {
    if (this.#deliveries.size === 0) return 0
    return this.#deliveries.get(nameOf(message)) ?? 0
  }

  forget(message: InboxMessage): void {
    if (this.#deliveries.size > 0) this.#deliveries.delete(nameOf(message))
  }
}

function nameOf({ source, id }: InboxMessage): string {
  return JSON.stringify([source, id])
}
