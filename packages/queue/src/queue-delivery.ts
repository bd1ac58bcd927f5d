import { ReceiptExpiredError, type Delivery, type InboxMessage, type Session } from '@txbox/core'
import type { QueueMessage } from '@txbox/core/ports'
import { LONGEST_TIMER_MS, LazyAbort, reasonOf } from '@txbox/core/internal'
import { expired } from './receipts.ts'
import { decodedMessage } from './received-message.ts'
import type { StoredQueue } from './stored-queue.ts'

interface DeliveryLease {
  /** When the visibility timeout ends at the earliest, on the monotonic clock of this process. */
  readonly until: number
  /** Called when the consumer no longer has the delivery: it was settled or lost. May be called more than once. */
  readonly ended: () => void
}

/** @returns whether the receipt was valid. */
type Settle<Tx, P> = (queue: StoredQueue<Tx, P>) => Promise<boolean>

export class QueueDelivery<Tx, P> implements Delivery<P> {
  readonly message: InboxMessage<P>
  declare readonly undecodable?: Error
  readonly key: string | undefined
  readonly deliveries: number
  readonly isSuspect: boolean
  readonly #queue: StoredQueue<Tx, P>
  readonly #stored: QueueMessage
  readonly #ended: () => void
  readonly #lost = new LazyAbort()
  #state: 'out' | 'settling' | 'settled' = 'out'
  /** Whether a transaction has settled the message. The transaction may have rolled back. */
  #settledIn = false
  /** The settlement in flight, if any; it does not reject. */
  #settling: Promise<unknown> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(queue: StoredQueue<Tx, P>, stored: QueueMessage, { until, ended }: DeliveryLease) {
    const { message, undecodable } = decodedMessage<P>(stored)
    this.message = message
    if (undecodable !== undefined) this.undecodable = undecodable
    this.key = stored.key
    this.deliveries = stored.receives
    this.isSuspect = stored.suspect
    this.#queue = queue
    this.#stored = stored
    this.#ended = ended
    this.#expireAt(until)
  }

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  onLost(listener: () => void): void {
    this.#lost.onAbort(listener)
  }

  accept(): Promise<void> {
    // After `settleIn` the acceptance is refused also because the transaction has committed.
    return this.#settle((queue) => queue.settle(this.#stored), { mayBeDone: this.#settledIn })
  }

  retry({ delayMs, error, counted }: { delayMs: number; error: unknown; counted: boolean }): Promise<void> {
    const giveback = { delayMs, counted, error: error === undefined ? undefined : reasonOf(error) }
    return this.#settle(({ store }) => store.giveBack(this.#stored, giveback))
  }

  reject({ error }: { error: unknown }): Promise<void> {
    return this.#settle(({ store, name }) => store.bury(name, this.#stored, reasonOf(error)))
  }

  async extend(leaseMs: number): Promise<void> {
    if (this.#state !== 'out' || this.#lost.isAborted) return
    const extendedAt = performance.now()
    const valid = await this.#attempt((queue) => queue.extend(this.#stored, leaseMs))
    if (this.#state !== 'out') return
    if (valid) this.#expireAt(extendedAt + leaseMs)
    else if (!this.#settledIn) this.#lose()
  }

  settleIn(tx: unknown): Promise<void> {
    return this.#settleIn((queue) => queue.settleIn(tx, this.#stored), tx)
  }

  settleInSession(session: Session): Promise<void> {
    return this.#settleIn((queue) => queue.settleInSession(session, this.#stored), session)
  }

  committed(): void {
    this.#wakeReceivers()
  }

  async #settleIn(settle: Settle<Tx, P>, tx: unknown): Promise<void> {
    const valid = this.#state === 'out' && (await this.#attempt(settle, tx))
    if (!valid) {
      this.#lose()
      throw expired('settleIn', this.#queue.name)
    }
    // The row is locked until the transaction ends, so no other receiver gets the message before that.
    this.#settledIn = true
    clearTimeout(this.#timer)
    this.#ended()
  }

  /**
   * Gives the message back without counting the receive, unless the message is settled. Waits for a settlement in flight,
   * which may fail. After that the delivery is lost, even if the database could not be reached.
   */
  async giveBack(): Promise<void> {
    await this.#settling
    if (this.#state !== 'out') return
    try {
      await this.retry({ delayMs: 0, error: undefined, counted: false })
    } finally {
      this.#lose()
    }
  }

  /**
   * Only the first successful settlement counts; a settlement that throws may be repeated. A settlement after `lost`
   * changes nothing.
   */
  async #settle(settle: Settle<Tx, P>, { mayBeDone } = { mayBeDone: false }): Promise<void> {
    if (this.#state !== 'out' || this.#lost.isAborted) return
    this.#state = 'settling'
    const attempt = this.#attempt(settle)
    this.#settling = attempt.catch(() => undefined)
    try {
      const valid = await attempt
      this.#state = 'settled'
      if (!valid && !mayBeDone) this.#lose()
      this.#wakeReceivers()
    } catch (error) {
      this.#state = 'out'
      throw error
    }
    clearTimeout(this.#timer)
    this.#ended()
  }

  /**
   * The visibility timeout may end while a transaction that has settled the message is open. If the transaction then
   * rolls back, the delivery still has the message until another receiver takes it.
   *
   * @param tx the transaction in which the message is settled, if any.
   */
  async #attempt(settle: Settle<Tx, P>, tx?: unknown): Promise<boolean> {
    if (await settle(this.#queue)) return true
    return this.#settledIn && (await this.#queue.renew(this.#stored, tx)) && settle(this.#queue)
  }

  /** A settled message was the first of its key, so the next message of the key can be received, or this one again. */
  #wakeReceivers(): void {
    if (this.#stored.ordered) this.#queue.wakeUpCall.wake()
  }

  #expireAt(at: number): void {
    clearTimeout(this.#timer)
    if (this.#settledIn) return
    const leftMs = Math.min(Math.max(0, at - performance.now()), LONGEST_TIMER_MS)
    this.#timer = setTimeout(() => this.#lose(), leftMs).unref()
  }

  #lose(): void {
    clearTimeout(this.#timer)
    this.#ended()
    this.#lost.abort(
      new ReceiptExpiredError(`The message is no longer held: its visibility timeout is over.`),
    )
  }
}
