import {
  InvalidMessageError,
  ReceiptExpiredError,
  type Delivery,
  type InboxMessage,
  type ReceivedMessage,
} from '@txbox/core'
import { LazyAbort } from '@txbox/core/internal'
import { WIRE_FIELDS } from '../publish/outgoing-entry.ts'
import { headersOf, identityOf, messageOf, textIn } from './from-redis.ts'
import type { ReceivedEntry, Standing } from './stream-group.ts'

type Rejection = Parameters<Delivery['reject']>[0]

/** The open stream that a delivery belongs to. */
export interface DeliveryOwner<P> {
  accept(delivery: StreamDelivery<P>): Promise<Standing>
  putBack(delivery: StreamDelivery<P>, how: { deliveries: number; delayMs: number }): Promise<Standing>
  reject(delivery: StreamDelivery<P>, how: Rejection): Promise<Standing>
  extend(delivery: StreamDelivery<P>): Promise<Standing>
  /** Called when the delivery cannot be delivered again, because its entry was deleted. */
  gone(delivery: StreamDelivery<P>): void
  /** Called when the delivery was settled or lost. May be called more than once. */
  ended(delivery: StreamDelivery<P>): void
  /** Called when the lease has changed. */
  expireAt(at: number): void
}

export class StreamDelivery<P> implements Delivery<P> {
  readonly message: InboxMessage<P>
  declare readonly undecodable?: unknown
  readonly key: string | undefined
  readonly deliveries: number
  readonly entry: ReceivedEntry
  readonly #owner: DeliveryOwner<P>
  readonly #lost = new LazyAbort()
  #isGone = false
  #state: 'out' | 'settling' | 'settled' = 'out'
  #expiresAt: number

  /** @param expiresAt when the lease ends at the earliest, on the monotonic clock of this process. */
  constructor(entry: ReceivedEntry, owner: DeliveryOwner<P>, expiresAt: number) {
    this.entry = entry
    this.#owner = owner
    this.#expiresAt = expiresAt
    this.deliveries = entry.deliveries
    const key = textIn(entry.fields, WIRE_FIELDS.key)
    this.key = key === '' ? undefined : key
    try {
      this.message = ownMessage<P>(entry)
    } catch (error) {
      this.message = { ...identityOf(entry), payload: payloadOf(entry) as P }
      this.undecodable = error ?? new InvalidMessageError('The entry cannot be decoded.')
    }
  }

  /** When the delivery is lost, unless it is settled or extended before. */
  get expiresAt(): number {
    return this.#expiresAt
  }

  /** Whether the entry was deleted while the consumer had the delivery. Redis knows nothing of the delivery then. */
  get isGone(): boolean {
    return this.#isGone
  }

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  onLost(listener: () => void): void {
    this.#lost.onAbort(listener)
  }

  decodeAgain(): InboxMessage<P> {
    return ownMessage<P>(this.entry)
  }

  /** Created lazily, because few messages become dead letters. */
  get body(): ReceivedMessage {
    const { fields } = this.entry
    const contentType = textIn(fields, WIRE_FIELDS.contentType)
    const contentEncoding = textIn(fields, WIRE_FIELDS.contentEncoding)
    return {
      ...identityOf(this.entry),
      headers: readableHeaders(this.entry),
      bytes: payloadOf(this.entry),
      ...(contentType === undefined ? {} : { contentType }),
      ...(contentEncoding === undefined ? {} : { contentEncoding }),
    }
  }

  async accept({ recorded = false }: { recorded?: boolean | undefined } = {}): Promise<void> {
    const accepting = this.#settle(async () => (this.#isGone ? 'ours' : this.#owner.accept(this)))
    // If the acceptance fails, the message is delivered again after the lease, and recognized.
    if (recorded) accepting.catch(() => undefined)
    else await accepting
  }

  retry({ delayMs, counted }: { delayMs: number; counted: boolean }): Promise<void> {
    const deliveries = this.deliveries - (counted ? 0 : 1)
    return this.#putBack({ deliveries, delayMs })
  }

  async postpone({ delayMs, deliveries }: { delayMs: number; deliveries: number }): Promise<boolean> {
    await this.#putBack({ deliveries, delayMs })
    return true
  }

  reject(how: Rejection): Promise<void> {
    return this.#settle(() => this.#owner.reject(this, how))
  }

  async extend(leaseMs: number): Promise<void> {
    if (this.#state !== 'out' || this.#lost.isAborted) return
    const extendedAt = performance.now()
    const standing = this.#isGone ? 'gone' : await this.#owner.extend(this)
    if (this.#state !== 'out') return
    if (standing === 'lost') {
      this.lose()
      return
    }
    // Nobody else can receive the message, so its handler goes on.
    this.#isGone = standing === 'gone'
    this.#expiresAt = extendedAt + leaseMs
    this.#owner.expireAt(this.#expiresAt)
  }

  /** Called when the consumer no longer has the delivery. */
  lose(why = 'its lease is over, and another consumer may have received it'): void {
    this.#owner.ended(this)
    if (this.#state === 'settled') return
    this.#lost.abort(new ReceiptExpiredError(`The message is no longer held: ${why}.`))
  }

  #putBack(how: { deliveries: number; delayMs: number }): Promise<void> {
    return this.#settle(async () => {
      const standing = this.#isGone ? 'gone' : await this.#owner.putBack(this, how)
      if (standing === 'gone') this.#owner.gone(this)
      return standing
    })
  }

  /** Only the first successful settlement counts; a settlement that throws may be repeated. */
  async #settle(settle: () => Promise<Standing>): Promise<void> {
    if (this.#state !== 'out' || this.#lost.isAborted) return
    this.#state = 'settling'
    try {
      const standing = await settle()
      if (standing === 'lost') this.lose()
      this.#state = 'settled'
    } catch (error) {
      this.#state = 'out'
      throw error
    }
    this.#owner.ended(this)
  }
}

/** Copies a payload of bytes, so that a handler that changes it does not change what was received. */
function ownMessage<P>(entry: ReceivedEntry): InboxMessage<P> {
  const message = messageOf<P>(entry)
  const { payload } = message
  return payload instanceof Uint8Array ? { ...message, payload: payload.slice() as P & Uint8Array } : message
}

function payloadOf({ fields }: ReceivedEntry): Uint8Array {
  const value = fields.get(WIRE_FIELDS.payload) ?? new Uint8Array(0)
  return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
}

/** Returns no headers if the field cannot be read: the message becomes a dead letter nevertheless. */
function readableHeaders(entry: ReceivedEntry): Readonly<Record<string, string>> {
  try {
    return headersOf(entry)
  } catch {
    return {}
  }
}
