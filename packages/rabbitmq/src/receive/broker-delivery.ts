import { InvalidMessageError, type Delivery, type InboxMessage, type ReceivedMessage } from '@txbox/core'
import { LazyAbort } from '@txbox/core/internal'
import type { ConsumeMessage } from 'amqplib'
import type { DeadLetterExchange } from './dead-letter-exchange.ts'
import { fromRabbitmq, identityOf } from './from-rabbitmq.ts'
import { KEY_HEADER } from '../publish/outgoing-message.ts'
import type { RestoredMessage } from './retried-message.ts'

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

/**
 * The header in which a quorum queue counts the earlier deliveries of a message. On a first delivery, the header comes from
 * the producer or from another queue, because a dead letter keeps the header when it is published again.
 */
const COUNT_HEADER = 'x-delivery-count'

interface DeliveryHow<P> {
  /** Whether the queue counts deliveries, and so sets the header with the count. */
  readonly isCounted: boolean
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
  readonly #raw: ConsumeMessage
  readonly #lost = new LazyAbort()
  readonly #waitsElsewhere: WaitsElsewhere
  readonly #settle: (delivery: BrokerDelivery<P>, how: Acknowledgement) => Promise<void>
  readonly #deadLetters: DeadLetterExchange | undefined
  #settled: Promise<void> | undefined

  constructor({ raw, earlierDeliveries }: RestoredMessage, how: DeliveryHow<P>) {
    this.#raw = raw
    this.#settle = how.settle
    this.#waitsElsewhere = how.waitsElsewhere
    this.#deadLetters = how.deadLetters
    try {
      this.message = withOwnBytes(fromRabbitmq<P>(raw))
    } catch (error) {
      this.message = readable<P>(raw)
      this.undecodable = error ?? new InvalidMessageError('The delivery cannot be decoded.')
    }
    const headers = raw.properties.headers ?? {}
    const key: unknown = headers[KEY_HEADER]
    this.key = typeof key === 'string' && key !== '' ? key : undefined
    const earlier = how.isCounted ? countOf(headers[COUNT_HEADER]) : 0
    this.deliveries = earlierDeliveries + (raw.fields.redelivered ? Math.max(2, earlier + 1) : 1)
  }

  /** Created lazily, because few messages become dead letters. */
  get body(): ReceivedMessage {
    const { content, properties } = this.#raw
    const { id, ...identity } = identityOf(properties)
    const contentType = textOf(properties.contentType)
    const contentEncoding = textOf(properties.contentEncoding)
    return {
      id: id ?? '',
      ...identity,
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
    return withOwnBytes(fromRabbitmq<P>(this.#raw))
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

/** @returns 0 if the header is not a positive whole number. */
function countOf(header: unknown): number {
  const earlier = Number(header)
  return Number.isSafeInteger(earlier) && earlier > 0 ? earlier : 0
}

/** Copies a payload of bytes, so that a handler that changes it does not change what was received. */
function withOwnBytes<P>(message: InboxMessage<P>): InboxMessage<P> {
  const { payload } = message
  return payload instanceof Uint8Array ? { ...message, payload: payload.slice() as P & Uint8Array } : message
}

/** Reads the readable parts of a delivery that cannot be decoded. The payload is the body as it was received. */
function readable<P>({ content, properties }: ConsumeMessage): InboxMessage<P> {
  const { id, ...identity } = identityOf(properties)
  const payload: unknown = new Uint8Array(content.buffer, content.byteOffset, content.byteLength)
  return { id: id ?? '', ...identity, payload: payload as P }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
