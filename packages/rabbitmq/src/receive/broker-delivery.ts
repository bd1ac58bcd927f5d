import type { Delivery, InboxMessage } from '@txbox/core'
import { LazyAbort } from '@txbox/core/internal'
import type { ConsumeMessage } from 'amqplib'
import type { ReadDelivery } from './delivery-reader.ts'

/** How a delivery is settled on its channel. `ack-unanswered` does not wait until the broker has processed the settlement. */
export type Acknowledgement = 'ack' | 'ack-unanswered' | 'reject' | 'requeue' | 'requeue-uncounted'

/** A delivery of one channel. The delivery is lost when the channel ends. */
export class BrokerDelivery<P> implements Delivery<P> {
  readonly message: InboxMessage<P>
  readonly undecodable?: unknown
  readonly key: string | undefined
  readonly deliveries: number
  readonly isCounted: boolean | undefined
  readonly #raw: ConsumeMessage
  readonly #lost = new LazyAbort()
  readonly #settle: (delivery: BrokerDelivery<P>, how: Acknowledgement) => Promise<void>
  #settled: Promise<void> | undefined

  constructor(
    raw: ConsumeMessage,
    { message, undecodable, key, deliveries, isCounted }: ReadDelivery<P>,
    settle: (delivery: BrokerDelivery<P>, how: Acknowledgement) => Promise<void>,
  ) {
    this.#raw = raw
    this.#settle = settle
    this.message = message
    this.undecodable = undecodable
    this.key = key
    this.deliveries = deliveries
    this.isCounted = isCounted
  }

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  onLost(listener: () => void): void {
    this.#lost.onAbort(listener)
  }

  /** Counts the deliveries of the channel. */
  get tag(): number {
    return this.#raw.fields.deliveryTag
  }

  get raw(): ConsumeMessage {
    return this.#raw
  }

  accept({ recorded = false }: { recorded?: boolean | undefined } = {}): Promise<void> {
    return this.#once(recorded ? 'ack-unanswered' : 'ack')
  }

  retry({ counted, stopping = false }: { counted: boolean; stopping?: boolean | undefined }): Promise<void> {
    // `close` returns the delivery to its place in the queue.
    if (stopping && this.key !== undefined) return (this.#settled ??= Promise.resolve())
    return this.#once(counted ? 'requeue' : 'requeue-uncounted')
  }

  reject(): Promise<void> {
    return this.#once('reject')
  }

  /** Called when the channel has ended, because the broker then takes back the delivery. */
  lose(reason: unknown): void {
    this.#lost.abort(reason)
  }

  #once(how: Acknowledgement): Promise<void> {
    // A tag of an earlier channel would settle another message, or close the channel.
    if (this.#lost.isAborted) return Promise.resolve()
    this.#settled ??= this.#settle(this, how)
    return this.#settled
  }
}
