import {
  ReceiptExpiredError,
  type Delivery,
  type InboxMessage,
  type ReceivedMessage,
  type Session,
} from '@txbox/core'
import type { QueueMessage } from '@txbox/core/ports'
import { LazyAbort, copyBytes, explanationOf } from '@txbox/core/internal'
import { expired } from './receipts.ts'
import { decodedMessage, identityOf } from './received-message.ts'
import type { StoredQueue } from './stored-queue.ts'

/** The open queue that a delivery belongs to. */
interface Owner<Tx, P> {
  /** Called when the consumer no longer has the delivery: it was settled or lost. May be called more than once. */
  ended(delivery: QueueDelivery<Tx, P>): void
  /** Called when the visibility timeout has changed. */
  expireAt(at: number): void
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
  readonly #owner: Owner<Tx, P>
  readonly #lost = new LazyAbort()
  #state: 'out' | 'settling' | 'settled' = 'out'
  /** Whether a transaction has settled the message. The transaction may have rolled back. */
  #settledIn = false
  /** The settlement in flight, if any. */
  #settling: Promise<unknown> | undefined
  #expiresAt: number

  /** @param expiresAt when the visibility timeout ends at the earliest, on the monotonic clock of this process. */
  constructor(queue: StoredQueue<Tx, P>, stored: QueueMessage, expiresAt: number, owner: Owner<Tx, P>) {
    const { message, undecodable } = decodedMessage<P>(stored)
    this.message = ownCopy(message)
    if (undecodable !== undefined) this.undecodable = undecodable
    this.key = stored.key
    this.deliveries = stored.receives
    this.isSuspect = stored.suspect
    this.#queue = queue
    this.#stored = stored
    this.#owner = owner
    this.#expiresAt = expiresAt
  }

  get body(): ReceivedMessage {
    const { payload: bytes, contentType } = this.#stored
    return { ...identityOf(this.#stored), bytes, contentType }
  }

  /** When the delivery is lost, unless it is settled or extended before. */
  get expiresAt(): number {
    return this.#expiresAt
  }

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  decodeAgain(): InboxMessage<P> {
    return ownCopy(decodedMessage<P>(this.#stored).message)
  }

  onLost(listener: () => void): void {
    this.#lost.onAbort(listener)
  }

  accept(): Promise<void> {
    // After `settleIn` the acceptance is refused also because the transaction has committed.
    return this.#settle((queue) => queue.settle(this.#stored), this.#settledIn)
  }

  retry({ delayMs, error, counted }: { delayMs: number; error: unknown; counted: boolean }): Promise<void> {
    const giveback = { delayMs, counted, error: error === undefined ? undefined : explanationOf(error) }
    return this.#settle(({ store }) => store.giveBack(this.#stored, giveback))
  }

  reject({ error }: { error: unknown }): Promise<void> {
    return this.#settle(({ store, name }) => store.bury(name, this.#stored, explanationOf(error)))
  }

  async extend(leaseMs: number): Promise<void> {
    if (this.#state !== 'out' || this.#lost.isAborted) return
    const extendedAt = performance.now()
    const valid = await this.#attempt((queue) => queue.extend(this.#stored, leaseMs))
    if (this.#state !== 'out') return
    if (valid) {
      this.#expiresAt = extendedAt + leaseMs
      this.#owner.expireAt(this.#expiresAt)
    } else if (!this.#settledIn) this.lose()
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
      this.lose()
      throw expired('settleIn', this.#queue.name)
    }
    // The row is locked until the transaction ends, so no other receiver gets the message before that.
    this.#settledIn = true
    this.#owner.ended(this)
  }

  /**
   * Gives the message back without counting the receive, unless the message is settled. Waits for a settlement in flight,
   * which may fail. After that the delivery is lost, even if the database could not be reached.
   */
  async giveBack(): Promise<void> {
    await this.#settling?.catch(() => undefined)
    if (this.#state !== 'out') return
    try {
      await this.retry({ delayMs: 0, error: undefined, counted: false })
    } finally {
      this.lose()
    }
  }

  /** Called when the visibility timeout is over. */
  lose(): void {
    this.#owner.ended(this)
    this.#lost.abort(
      new ReceiptExpiredError(`The message is no longer held: its visibility timeout is over.`),
    )
  }

  /**
   * Only the first successful settlement counts; a settlement that throws may be repeated. A settlement after `lost`
   * changes nothing.
   */
  async #settle(settle: Settle<Tx, P>, mayBeDone = false): Promise<void> {
    if (this.#state !== 'out' || this.#lost.isAborted) return
    this.#state = 'settling'
    try {
      const settling = settle(this.#queue)
      this.#settling = settling
      const valid = (await settling) || (this.#settledIn && (await this.#settleRenewed(settle)))
      this.#state = 'settled'
      if (!valid && !mayBeDone) this.lose()
      this.#wakeReceivers()
    } catch (error) {
      this.#state = 'out'
      throw error
    }
    this.#owner.ended(this)
  }

  /** @param tx the transaction in which the message is settled, if any. */
  async #attempt(settle: Settle<Tx, P>, tx?: unknown): Promise<boolean> {
    return (await settle(this.#queue)) || (this.#settledIn && this.#settleRenewed(settle, tx))
  }

  /**
   * The visibility timeout may end while a transaction that has settled the message is open. If the transaction then
   * rolls back, the delivery still has the message until another receiver takes it.
   */
  async #settleRenewed(settle: Settle<Tx, P>, tx?: unknown): Promise<boolean> {
    return (await this.#queue.renew(this.#stored, tx)) && settle(this.#queue)
  }

  /** A settled message was the first of its key, so the next message of the key can be received, or this one again. */
  #wakeReceivers(): void {
    if (this.#stored.ordered) this.#queue.wakeUpCall.wake()
  }
}

/** Copies what the stored message shares with the message, so that a handler does not change what was received. */
function ownCopy<P>(message: InboxMessage<P>): InboxMessage<P> {
  const { payload } = message
  const headers = { ...message.headers }
  if (!(payload instanceof Uint8Array)) return { ...message, headers }
  return { ...message, headers, payload: copyBytes(payload) }
}
