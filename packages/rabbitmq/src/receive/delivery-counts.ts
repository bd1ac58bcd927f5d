import { propertyOf } from '@txbox/core/internal'
import type { ConsumeMessage } from 'amqplib'

/**
 * The header in which a quorum queue counts the earlier deliveries of a message. On a first delivery, the header comes from
 * the producer or from another queue, because a message keeps the header when it is published again.
 */
const COUNT_HEADER = 'x-delivery-count'
/** From RabbitMQ 4.3, the header in which a quorum queue counts how often it has handed out the message before. */
const ACQUIRED_HEADER = 'x-acquired-count'
/** The headers in which a quorum queue counts. */
export const COUNT_HEADERS = [COUNT_HEADER, ACQUIRED_HEADER] as const

/** The reasons for which a quorum queue moves a message that it has delivered. */
const AFTER_DELIVERY: ReadonlySet<unknown> = new Set(['rejected', 'delivery_limit'])

/**
 * The queues whose deliveries have shown to this process that they do not count deliveries. A consumer that is created again must
 * not believe again what is left over from another queue.
 */
const uncounted = new Set<string>()

/** The number of deliveries of a message, as far as the queue reports it. */
export interface DeliveryCount {
  readonly deliveries: number
  /** Whether the queue counts deliveries; `undefined` as long as the queue has not shown it. */
  readonly isCounted: boolean | undefined
}

/**
 * Reads the counts of one queue. Only a quorum queue counts deliveries, and no queue reports its type. A header that was left
 * over from another queue stays as it is on a classic queue, `redelivered` or not, so the count is believed only if the queue
 * is known to count, or as long as its deliveries do not show the opposite:
 *
 * - From RabbitMQ 4.3, the count is believed up to the count of how often this queue has handed out the message.
 * - Before, the count of a redelivered message is believed, until a redelivered message comes without the header, or a message
 *   that is delivered for the first time comes with the header.
 */
export class DeliveryCounts {
  readonly #queue: string
  /** Identifies the queue among those of all brokers. */
  readonly #name: string
  /** Whether the queue counts deliveries; `undefined` if only the deliveries show it. */
  readonly #isQuorum: boolean | undefined
  /** Whether the broker is RabbitMQ 4.3 or later. */
  hasAcquiredCounts = false

  constructor({ queue, broker, isQuorum }: { queue: string; broker: string; isQuorum: boolean | undefined }) {
    this.#queue = queue
    this.#name = JSON.stringify([broker, queue])
    this.#isQuorum = isQuorum
  }

  /**
   * @param earlier the deliveries of the message before it was published to the queue again, such as by a retry that waited in
   *   another queue.
   */
  of(delivery: ConsumeMessage, earlier = 0): DeliveryCount {
    const isCounted = this.#isQuorum ?? this.#isCounted(delivery)
    const { redelivered } = delivery.fields
    const counted = isCounted === true && redelivered ? this.#countIn(delivery) : 0
    return { deliveries: earlier + (redelivered ? Math.max(2, counted + 1) : 1), isCounted }
  }

  /** @returns what this delivery, and those before it, show. */
  #isCounted({ fields: { redelivered }, properties }: ConsumeMessage): boolean | undefined {
    const headers = properties.headers ?? {}
    const hasCount = headers[this.hasAcquiredCounts ? ACQUIRED_HEADER : COUNT_HEADER] !== undefined
    // From 4.3, also a quorum queue leaves the header on a first delivery, but nothing is believed then.
    if (redelivered ? !hasCount : hasCount && !this.hasAcquiredCounts) uncounted.add(this.#name)
    if (uncounted.has(this.#name)) return false
    return redelivered ? true : undefined
  }

  #countIn({ properties }: ConsumeMessage): number {
    const headers = properties.headers ?? {}
    const count = wholeNumber(headers[COUNT_HEADER])
    if (!this.hasAcquiredCounts) return count
    const acquired = wholeNumber(headers[ACQUIRED_HEADER])
    return acquired >= count && this.#isFromElsewhere(headers) ? 0 : Math.min(count, acquired)
  }

  /**
   * Returns whether another queue has made the message a dead letter after it had delivered the message. From 4.3, such a message
   * arrives as redelivered and with both counts of the other queue. This queue continues the first count, but begins its own count
   * of how often it has handed out the message, so that from then on the second count is the smaller one.
   */
  #isFromElsewhere(headers: Readonly<Record<string, unknown>>): boolean {
    const deaths = headers['x-death']
    const last: unknown = Array.isArray(deaths) ? deaths[0] : undefined
    return propertyOf(last, 'queue') !== this.#queue && AFTER_DELIVERY.has(propertyOf(last, 'reason'))
  }
}

/** @returns 0 if the header is not a positive whole number. */
function wholeNumber(header: unknown): number {
  const value = Number(header)
  return Number.isSafeInteger(value) && value > 0 ? value : 0
}
