/** The minimum number of messages that are remembered. */
const MIN_MESSAGES = 10_000

type Identity = { readonly source?: string | undefined; readonly id: string }

/** What this process knows about the earlier deliveries of a message that the source delivers again. */
export interface EarlierDeliveries {
  /** The number of deliveries. The source's own count, if it has one, does not include the retries for which the consumer held the delivery. */
  readonly deliveries: number
  /** The number of deliveries that count as attempts. */
  readonly attempts: number
  /** The number of deliveries that ended with the connection. The source's own count includes them, but they are no attempts. */
  readonly lost: number
  /** How often the message was retried uncounted because its transaction has lost its connection. */
  readonly lostConnections: number
}

export const NOTHING_EARLIER: EarlierDeliveries = { deliveries: 0, attempts: 0, lost: 0, lostConnections: 0 }

/** Remembers the deliveries of messages that were returned to the source, or taken back by it. */
export class RememberedDeliveries {
  readonly #maxMessages: number
  readonly #deliveries = new Map<string, EarlierDeliveries>()

  /** @param held the maximum number of deliveries that can be lost at the same time. */
  constructor(held: number) {
    this.#maxMessages = Math.max(MIN_MESSAGES, held * 2)
  }

  returned(message: Identity, earlier: Omit<EarlierDeliveries, 'lost'>): void {
    this.#remember(message, { ...earlier, lost: this.of(message).lost })
  }

  /** By default, nothing else is known about the lost delivery. */
  lost(message: Identity, earlier: Omit<EarlierDeliveries, 'lost'> = this.of(message)): void {
    this.#remember(message, { ...earlier, lost: this.of(message).lost + 1 })
  }

  of(message: Identity): EarlierDeliveries {
    if (this.#deliveries.size === 0) return NOTHING_EARLIER
    return this.#deliveries.get(nameOf(message)) ?? NOTHING_EARLIER
  }

  /** The source keeps the number of deliveries from now on. */
  moved(message: Identity, lostConnections: number): void {
    if (lostConnections === 0) this.forget(message)
    else this.#remember(message, { ...NOTHING_EARLIER, lostConnections })
  }

  forget(message: Identity): void {
    if (this.#deliveries.size > 0) this.#deliveries.delete(nameOf(message))
  }

  #remember(message: Identity, earlier: EarlierDeliveries): void {
    const name = nameOf(message)
    this.#deliveries.delete(name)
    this.#deliveries.set(name, earlier)
    const [oldest] = this.#deliveries.keys()
    if (this.#deliveries.size > this.#maxMessages && oldest !== undefined) this.#deliveries.delete(oldest)
  }
}

function nameOf({ source, id }: Identity): string {
  return JSON.stringify([source, id])
}
