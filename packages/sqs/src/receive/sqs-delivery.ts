import { ReceiptExpiredError, type Delivery, type InboxMessage, type ReceivedMessage } from '@txbox/core'
import { LazyAbort } from '@txbox/core/internal'
import type { DeadLetterQueue } from './dead-letter-queue.ts'
import { asReceived, type MessageReader } from './message-reader.ts'
import type { ReceivedFields } from './received-fields.ts'
import type { ReceivedQueue, ReceivedSqsMessage } from './received-queue.ts'
import { LONGEST_VISIBILITY_MS } from './source-options.ts'

type Rejection = Parameters<Delivery['reject']>[0]

/** The open queue that a delivery belongs to. */
export interface DeliveryOwner<P> {
  readonly queue: ReceivedQueue
  readonly reader: MessageReader
  readonly deadLetters: DeadLetterQueue | undefined
  /** Called when the consumer no longer has the delivery: it was settled or lost. May be called more than once. */
  ended(delivery: SqsDelivery<P>): void
  /** Called before a delivery is lost that is not settled. */
  losing(delivery: SqsDelivery<P>): void
  /** Called when the visibility timeout has changed. */
  expireAt(at: number): void
}

export class SqsDelivery<P> implements Delivery<P> {
  readonly message: InboxMessage<P>
  declare readonly undecodable?: unknown
  readonly key: string | undefined
  readonly deliveries: number
  readonly #raw: ReceivedSqsMessage
  readonly #fields: ReceivedFields
  readonly #id: string
  readonly #owner: DeliveryOwner<P>
  readonly #lost = new LazyAbort()
  readonly #receivedAt = performance.now()
  #state: 'out' | 'settling' | 'settled' = 'out'
  /** The settlement in flight, if any. */
  #settling: Promise<unknown> | undefined
  #expiresAt: number

  /** @param expiresAt when the visibility timeout ends at the earliest, on the monotonic clock of this process. */
  constructor(raw: ReceivedSqsMessage, expiresAt: number, owner: DeliveryOwner<P>) {
    const { message, undecodable, key, fields } = owner.reader.read<P>(raw)
    this.message = message
    if (undecodable !== undefined) this.undecodable = undecodable
    this.key = key
    this.deliveries = owner.queue.queue.isFifo ? 1 : receivesOf(raw)
    this.#raw = raw
    this.#fields = fields
    this.#id = message.id
    this.#owner = owner
    this.#expiresAt = expiresAt
  }

  get body(): ReceivedMessage {
    return asReceived(this.#fields, this.#id)
  }

  /** The message group of a FIFO queue. */
  get group(): string | undefined {
    return this.#raw.Attributes?.['MessageGroupId']
  }

  /** When the delivery is lost, unless it is settled or extended before. */
  get expiresAt(): number {
    return this.#expiresAt
  }

  get isOut(): boolean {
    return this.#state === 'out' && !this.#lost.isAborted
  }

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  onLost(listener: () => void): void {
    this.#lost.onAbort(listener)
  }

  decodeAgain(): InboxMessage<P> {
    return this.#owner.reader.read<P>(this.#raw).message
  }

  async accept({ recorded = false }: { recorded?: boolean | undefined } = {}): Promise<void> {
    const accepting = this.#settle(() => this.#owner.queue.delete(this.#raw))
    // A redelivery would be recognized as a duplicate.
    if (recorded) accepting.catch(() => this.lose())
    else await accepting
  }

  /** SQS counts each receive: a return that does not count is counted all the same. */
  retry({ delayMs }: { delayMs: number }): Promise<void> {
    // SQS limits the time since the message was received.
    const heldMs = performance.now() - this.#receivedAt
    const ms = Math.min(delayMs, Math.max(0, LONGEST_VISIBILITY_MS - heldMs - 1000))
    return this.#settle(() => this.#owner.queue.changeVisibility(this.#raw, ms))
  }

  async reject({ error, deliveries = this.deliveries, id }: Rejection = { error: undefined }): Promise<void> {
    await this.#settle(async () => {
      await this.#owner.deadLetters?.take(this.#raw, { error, deliveries, id })
      return this.#owner.queue.delete(this.#raw)
    })
  }

  async extend(leaseMs: number): Promise<void> {
    if (!this.isOut) return
    const extendedAt = performance.now()
    const isValid = await this.#owner.queue.changeVisibility(this.#raw, leaseMs)
    if (!this.isOut) return
    if (!isValid) return this.lose()
    this.#expiresAt = extendedAt + leaseMs
    this.#owner.expireAt(this.#expiresAt)
  }

  /**
   * Lets the message be received again, unless it is settled. Waits for a settlement in flight, which may fail. After that the delivery
   * is lost, even if SQS could not be reached.
   */
  async giveBack(): Promise<void> {
    await this.#settling?.catch(() => undefined)
    if (this.#state !== 'out') return
    try {
      await this.retry({ delayMs: 0 })
    } finally {
      this.lose()
    }
  }

  /** Called when the visibility timeout is over, possibly during a settlement, or when SQS does not take the receipt any more. */
  lose(): void {
    if (this.#state !== 'settled' && !this.#lost.isAborted) this.#owner.losing(this)
    this.#owner.ended(this)
    this.#lost.abort(
      new ReceiptExpiredError(
        'The message is no longer held: its visibility timeout is over, or the source was closed.',
      ),
    )
  }

  /** Loses the delivery at once, and lets the message be received again. */
  giveUp(): void {
    // Without an answer, the message is delivered again after its visibility timeout.
    this.#owner.queue.changeVisibility(this.#raw, 0).catch(() => undefined)
    this.lose()
  }

  /**
   * Only the first successful settlement counts; a settlement that throws may be repeated. A settlement after `lost` changes nothing.
   *
   * @param settle returns whether the receipt was valid.
   */
  async #settle(settle: () => Promise<boolean>): Promise<void> {
    if (!this.isOut) return
    this.#state = 'settling'
    try {
      const settling = settle()
      this.#settling = settling
      if (await settling) this.#state = 'settled'
      else this.lose()
    } catch (error) {
      this.#state = 'out'
      throw error
    }
    this.#owner.ended(this)
  }
}

/** In a FIFO queue, this number says little: a message is also received along with an earlier one of its group that is retried. */
function receivesOf({ Attributes }: ReceivedSqsMessage): number {
  return Math.max(1, Number(Attributes?.['ApproximateReceiveCount'] ?? 1) || 1)
}
