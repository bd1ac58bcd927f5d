import type { Delivery, InboxMessage } from '@txbox/core'
import type { MessageEvent } from '../options/consumer.ts'

/**
 * `waiting`: the delivery waits for an earlier message of its key, or for a free handler. `running`: the delivery is being
 * handled or settled. `retrying`: the delivery waits for its next attempt. `gone`: the delivery was settled or lost, and is
 * no longer held.
 */
type SlotState = 'waiting' | 'running' | 'retrying' | 'gone'

/** A call of the handler that has not ended. */
interface RunningCall {
  readonly durationMs: number
  giveUp(reason: unknown): void
  /** Called when the broker has taken back one of the deliveries. */
  deliveryLost(): void
}

/** One delivery that the consumer holds, from its receipt until it is settled or lost. */
export class DeliverySlot {
  readonly delivery: Delivery
  readonly source: string
  state: SlotState = 'waiting'
  localRetries = 0
  /** Whether the source has settled the delivery, possibly in the handler's transaction or before the handler was called. */
  isSettled = false
  /** Whether the source has reported that another consumer may have received the message. */
  isExpired = false
  /** Whether the broker has taken back the delivery. */
  isTakenBack = false
  /** The running call of the handler. */
  call: RunningCall | undefined
  /** The timer of the next attempt. */
  timer: NodeJS.Timeout | undefined
  /** The failure after which the consumer holds the delivery. The source has not counted this failure. */
  failure: { readonly error: unknown } | undefined
  readonly #firstDeliveries: number
  #heldRuns = 0

  /** @param earlier the number of earlier deliveries of the message that this process remembers. */
  constructor(delivery: Delivery, source: string, earlier: number) {
    this.delivery = delivery
    this.source = source
    this.#firstDeliveries = Math.max(delivery.deliveries, earlier + 1)
  }

  get message(): InboxMessage {
    return this.delivery.message
  }

  /** The number of deliveries. An attempt for which the consumer held the delivery counts as another delivery. */
  get deliveries(): number {
    return this.#firstDeliveries + this.#heldRuns
  }

  get isLost(): boolean {
    return this.isExpired || this.isTakenBack
  }

  get about(): MessageEvent {
    return { source: this.source, message: this.message, deliveries: this.deliveries }
  }

  /** Counts an attempt for which the consumer held the delivery, instead of returning it to the broker. */
  countHeldRun(): void {
    this.#heldRuns += 1
    this.localRetries = 0
  }
}
