import type { Delivery, InboxMessage, ReceivedMessage } from '@txbox/core'
import { LazyAbort } from '@txbox/core/internal'
import type { ConsumeMessage } from 'amqplib'
import { KEY_HEADER } from '../publish/outgoing-message.ts'
import type { DeadLetterExchange } from './dead-letter-exchange.ts'
import { decoded, type ReadDelivery } from './delivery-reader.ts'
import { receivedIdentityOf } from './from-rabbitmq.ts'

/**
 * How a delivery is settled on its channel. `ack-unanswered` does not wait until the broker has processed the settlement.
 * `return` is a requeue by a consumer that stops, which the channel may leave to its close.
 */
export type Acknowledgement =
  | 'ack'
  | 'ack-unanswered'
  | 'reject'
  | 'requeue'
  | 'requeue-uncounted'
  | 'return'
  | 'return-uncounted'

type Postponement = Parameters<NonNullable<Delivery['postpone']>>[0]

/** @returns how the delivery is to be settled then. `undefined` if the message cannot wait outside of its queue now. */
export type WaitsElsewhere = (raw: ConsumeMessage, how: Postponement) => Promise<Acknowledgement | undefined>
type Rejection = Parameters<Delivery['reject']>[0]

interface DeliveryHow<P> {
  readonly settle: (delivery: BrokerDelivery<P>, how: Acknowledgement) => Promise<void>
  /** Lets the message wait for a retry outside of its queue. */
  readonly waitsElsewhere: WaitsElsewhere
  /** Takes a rejected message. If undefined, the broker itself moves the message, if it keeps rejected messages. */
  readonly deadLetters: DeadLetterExchange | undefined
}

/** A delivery of one channel. The delivery is lost when the channel ends. */
export class BrokerDelivery<P> implements Delivery<P> {
  readonly message: InboxMessage<P>
  readonly undecodable?: unknown
  readonly key: string | undefined
  readonly deliveries: number
  readonly isCounted: boolean | undefined
  /** The id of the message as it was received: a handler may change its message. */
  readonly #id: string
  readonly #raw: ConsumeMessage
  readonly #lost = new LazyAbort()
  readonly #waitsElsewhere: WaitsElsewhere
  readonly #settle: (delivery: BrokerDelivery<P>, how: Acknowledgement) => Promise<void>
  readonly #deadLetters: DeadLetterExchange | undefined
  #settled: Promise<void> | undefined

  /** @param raw the message as it was received first, before any retry in another queue. */
  constructor(
    raw: ConsumeMessage,
    { message, undecodable, key, deliveries, isCounted }: ReadDelivery<P>,
    how: DeliveryHow<P>,
  ) {
    this.#raw = raw
    this.#settle = how.settle
    this.#waitsElsewhere = how.waitsElsewhere
    this.#deadLetters = how.deadLetters
    this.message = message
    this.#id = message.id
    this.undecodable = undecodable
    this.key = key
    this.deliveries = deliveries
    this.isCounted = isCounted
  }

  /** Created lazily, because few messages become dead letters. */
  get body(): ReceivedMessage {
    const { content, properties } = this.#raw
    const { id: _, headers, ...identity } = receivedIdentityOf(properties)
    const { [KEY_HEADER]: key, ...others } = headers
    const contentType = textOf(properties.contentType)
    const contentEncoding = textOf(properties.contentEncoding)
    return {
      ...identity,
      id: this.#id,
      // A publisher of dead letters writes the key itself.
      headers: key === this.key ? others : headers,
      bytes: content,
      ...(contentType === undefined ? {} : { contentType }),
      ...(contentEncoding === undefined ? {} : { contentEncoding }),
    }
  }

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  onLost(listener: () => void): void {
    this.#lost.onAbort(listener)
  }

  decodeAgain(): InboxMessage<P> {
    return decoded<P>(this.#raw, this.#id)
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
    if (stopping) return this.#once(counted ? 'return' : 'return-uncounted')
    return this.#once(counted ? 'requeue' : 'requeue-uncounted')
  }

  async reject({ error, deliveries = this.deliveries }: Rejection = { error: undefined }): Promise<void> {
    const isOpen = this.#settled === undefined && !this.#lost.isAborted
    if (this.#deadLetters === undefined || !isOpen) return this.#once('reject')
    await this.#deadLetters.take(this.#raw, { error, deliveries })
    await this.#once('ack')
  }

  /** If the connection breaks before the acceptance arrives, the message is delivered again, although it also waits elsewhere. */
  async postpone(retry: Postponement): Promise<boolean> {
    if (this.#lost.isAborted) return true
    const settlement = await this.#waitsElsewhere(this.#raw, retry)
    if (settlement === undefined) return false
    await this.#once(settlement)
    return true
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

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
