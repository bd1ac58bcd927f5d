import type { Delivery, InboxMessage } from '@txbox/core'
import type { MessageEvent } from './consumer.ts'
import type { HandlerCall } from './handler-call.ts'

/**
 * `waiting`: for its key, or for a free handler. `running`: a handler has it. `retrying`: waits for its next attempt.
 * `gone`: settled or lost, and no longer in hand.
 */
export type SlotState = 'waiting' | 'running' | 'retrying' | 'gone'

/** One delivery in hand, from receive until it is settled or lost. */
export class DeliverySlot {
  readonly delivery: Delivery
  readonly source: string
  state: SlotState = 'waiting'
  localRetries = 0
  /** The source has settled the delivery in the handler's transaction, or before the handler was called. */
  isSettled = false
  /** The source has said that another consumer may have the message. */
  isExpired = false
  /** The call of the handler that runs. */
  call: HandlerCall | undefined
  /** Waits for the next attempt. */
  timer: NodeJS.Timeout | undefined
  /** The failure for which the delivery waits here: the source does not know of it yet. */
  failure: { readonly error: unknown } | undefined
  readonly #firstDeliveries: number
  #runsFromHand = 0

  /** @param earlier the deliveries of the message that this process knows of. */
  constructor(delivery: Delivery, source: string, earlier: number) {
    this.delivery = delivery
    this.source = source
    this.#firstDeliveries = Math.max(delivery.deliveries, earlier + 1)
  }

  get message(): InboxMessage {
    return this.delivery.message
  }

  /** The number of deliveries; a delivery that runs again from hand counts like one more. */
  get deliveries(): number {
    return this.#firstDeliveries + this.#runsFromHand
  }

  get isLost(): boolean {
    return this.isExpired || this.delivery.lost.aborted
  }

  get about(): MessageEvent {
    return { source: this.source, message: this.message, deliveries: this.deliveries }
  }

  /** The delivery waited here instead of at the broker, and runs again. */
  countRunFromHand(): void {
    this.#runsFromHand += 1
    this.localRetries = 0
  }
}
