import { PermanentError, type DeadLettered, type Delivery, type OpenSource } from '@txbox/core'
import type { QueueMessage } from '@txbox/core/ports'
import { GAUGES_END_MS, LeaseExpiries, unlessAborted, within } from '@txbox/core/internal'
import { longPoll, type PollIntervals } from './long-poll.ts'
import { QueueDelivery } from './queue-delivery.ts'
import { decodedMessage } from './received-message.ts'
import type { StoredQueue } from './stored-queue.ts'

/** The wait has no time limit of its own; the signal ends it. */
const FOREVER_MS = Infinity

interface OpenQueueSettings<P> {
  readonly prefetch: number
  readonly pollIntervals: PollIntervals
  readonly deadLettered: ((dead: DeadLettered<P>) => void) | undefined
}

export class OpenQueue<Tx, P> implements OpenSource<P> {
  /** A receive that fails says nothing about the deliveries: their receipts are valid until the visibility timeout. */
  readonly keepsDeliveries = true
  readonly #queue: StoredQueue<Tx, P>
  readonly #settings: OpenQueueSettings<P>
  /**
   * The deliveries that the consumer has and that are not settled yet. A delivery also leaves this set when a
   * transaction has settled it, although the transaction may still roll back.
   */
  readonly #unsettled = new Set<QueueDelivery<Tx, P>>()
  readonly #closing = new AbortController()
  readonly #expiries = new LeaseExpiries<QueueDelivery<Tx, P>>(
    () => this.#unsettled,
    (delivery) => delivery.lose(),
  )
  readonly #endGauges: () => Promise<void>
  #onFreeSlot: (() => void) | undefined
  #receiving: Promise<unknown> = Promise.resolve()

  constructor(queue: StoredQueue<Tx, P>, settings: OpenQueueSettings<P>) {
    this.#queue = queue
    this.#settings = settings
    queue.wakeUpCall.use()
    this.#endGauges = queue.observe()
  }

  async receive(
    limit: number,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<readonly Delivery<P>[]> {
    const receiving = this.#receive(limit, AbortSignal.any([signal, this.#closing.signal]))
    this.#receiving = receiving.catch(() => undefined)
    return receiving
  }

  async close({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    if (this.#closing.signal.aborted) return
    this.#closing.abort()
    const gaugesEnded = unlessAborted(this.#endGauges(), signal).catch(() => undefined)
    this.#queue.wakeUpCall.release()
    await this.#receiving
    try {
      await Promise.all([...this.#unsettled].map((delivery) => delivery.giveBack()))
    } finally {
      this.#expiries.stop()
      await within(gaugesEnded, GAUGES_END_MS, () => undefined)
    }
  }

  async #receive(limit: number, signal: AbortSignal): Promise<readonly Delivery<P>[]> {
    await this.#freeSlot(signal)
    const { visibilityTimeoutMs } = this.#queue.settings
    const slots = Math.min(limit, this.#settings.prefetch - this.#unsettled.size, 1000)
    const buried = (message: QueueMessage, error: string): void => this.#buried(message, error)
    const request = { limit: slots, visibilityTimeoutMs, remove: false, attempt: undefined, buried }
    let lookedAt = 0
    const look = (): ReturnType<StoredQueue<Tx, P>['look']> => {
      lookedAt = performance.now()
      return this.#queue.look(request)
    }
    const waiting = { waitMs: FOREVER_MS, signal, ...this.#settings.pollIntervals }
    const received = await longPoll(look, this.#queue.wakeUpCall, waiting)
    const expiresAt = lookedAt + visibilityTimeoutMs
    const deliveries = received.map((stored) => new QueueDelivery(this.#queue, stored, expiresAt, this))
    for (const delivery of deliveries) this.#unsettled.add(delivery)
    if (deliveries.length > 0) this.expireAt(expiresAt)
    return deliveries
  }

  ended(delivery: QueueDelivery<Tx, P>): void {
    this.#unsettled.delete(delivery)
    this.#onFreeSlot?.()
  }

  expireAt(at: number): void {
    this.#expiries.expireAt(at)
  }

  #buried(stored: QueueMessage, reason: string): void {
    const { message } = decodedMessage<P>(stored)
    const error = new PermanentError(
      `The message was received ${stored.receives} times, as often as maxReceives allows, and was not handled. Last error: ${reason}`,
    )
    this.#settings.deadLettered?.({ message, deliveries: stored.receives, error })
  }

  /** Resolves when the consumer has fewer than `prefetch` unsettled deliveries, or when the signal is aborted. */
  async #freeSlot(signal: AbortSignal): Promise<void> {
    while (this.#unsettled.size >= this.#settings.prefetch && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#onFreeSlot = resolve
      signal.addEventListener('abort', () => resolve(), { once: true })
      await promise
    }
  }
}
