import { BrokerUnavailableError, type Delivery, type InboxMessage, type ReceivedMessage } from '@txbox/core'
import { LazyAbort } from '@txbox/core/internal'
import { decoded, type NatsSourceMessage, type ReadDelivery } from './delivery-reader.ts'

const NANOSECONDS = 1_000_000
/** How a settlement begins that returns the message. */
export const NAK = '-NAK'

/** The open source that a delivery belongs to. */
export interface DeliveryOwner<P> {
  /** Sends a settlement until the consumer has processed it, or the delivery is lost. */
  settle(delivery: NatsDelivery<P>, settlement: string): Promise<void>
  /** Called when the consumer no longer has the delivery: it was settled or lost. May be called more than once. */
  ended(delivery: NatsDelivery<P>): void
  /** Called when the message leaves the consumer for a counted retry, with the number of deliveries that count so far. */
  postponed(delivery: NatsDelivery<P>, deliveries: number): void
  /** Extends the lease at the server. */
  extend(delivery: NatsDelivery<P>): Promise<void>
}

type Postponement = Parameters<NonNullable<Delivery['postpone']>>[0]

/** A message as it was received, with the parts of its reply subject. */
export interface Arrived {
  readonly raw: NatsSourceMessage
  /** The subject to which it is acknowledged. */
  readonly reply: string
  /** The place of the message in its stream. */
  readonly sequence: number
  /** The deliveries that JetStream has counted. */
  readonly counted: number
}

/** A delivery of a consumer. It outlives the connection, as long as its lease lasts. */
export class NatsDelivery<P> implements Delivery<P> {
  readonly message: InboxMessage<P>
  readonly undecodable?: unknown
  readonly key: string | undefined
  readonly deliveries: number
  readonly arrived: Arrived
  /** When the lease is over, unless the delivery is settled or extended before. On the monotonic clock of this process. */
  expiresAt: number
  readonly #read: ReadDelivery<P>
  readonly #owner: DeliveryOwner<P>
  readonly #id: string
  readonly #lost = new LazyAbort()
  #settled: Promise<void> | undefined

  constructor(
    arrived: Arrived,
    read: ReadDelivery<P>,
    how: { readonly deliveries: number; readonly expiresAt: number; readonly owner: DeliveryOwner<P> },
  ) {
    this.arrived = arrived
    this.#read = read
    this.message = read.message
    this.#id = read.message.id
    this.undecodable = read.undecodable
    this.key = read.key
    this.deliveries = how.deliveries
    this.expiresAt = how.expiresAt
    this.#owner = how.owner
  }

  /** Created lazily, because few messages become dead letters. */
  get body(): ReceivedMessage {
    const { identity, received, contentType, contentEncoding } = this.#read.headers
    return {
      ...identity,
      headers: received,
      id: this.#id,
      bytes: this.arrived.raw.data,
      ...(contentType === undefined ? {} : { contentType }),
      ...(contentEncoding === undefined ? {} : { contentEncoding }),
    }
  }

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  get isLost(): boolean {
    return this.#lost.isAborted
  }

  onLost(listener: () => void): void {
    this.#lost.onAbort(listener)
  }

  decodeAgain(): InboxMessage<P> {
    return decoded<P>(this.arrived.raw, this.#read.headers, this.#id)
  }

  async accept({ recorded = false }: { recorded?: boolean | undefined } = {}): Promise<void> {
    const accepting = this.#once('+ACK')
    if (!recorded) return accepting
    // A redelivery would be recognized: the next message need not wait for the server.
    this.#owner.ended(this)
    accepting.catch(() => undefined)
  }

  retry({ delayMs }: { delayMs: number }): Promise<void> {
    return this.#once(nak(delayMs))
  }

  /** JetStream counts each delivery, so that a message whose retry does not count is better held. */
  async postpone({ delayMs, counted, deliveries }: Postponement): Promise<boolean> {
    if (!counted) return false
    if (this.#settled === undefined && !this.isLost) this.#owner.postponed(this, deliveries)
    await this.#once(nak(delayMs))
    return true
  }

  reject(): Promise<void> {
    return this.#once('+TERM')
  }

  async extend(): Promise<void> {
    if (this.#settled === undefined && !this.isLost) await this.#owner.extend(this)
  }

  /** Called when the lease is over, or when the source has closed. */
  lose(why: string): void {
    this.#owner.ended(this)
    this.#lost.abort(new BrokerUnavailableError(why))
  }

  #once(settlement: string): Promise<void> {
    // After the loss, another consumer may have the message.
    if (this.isLost) return Promise.resolve()
    this.#settled ??= this.#owner.settle(this, settlement)
    return this.#settled
  }
}

function nak(delayMs: number): string {
  const delay = Math.ceil(delayMs * NANOSECONDS)
  return delay > 0 ? `${NAK} ${JSON.stringify({ delay })}` : NAK
}
