import type { Delivery, OpenSource } from '@txbox/core'
import { longPoll, type PollIntervals } from './long-poll.ts'
import { QueueDelivery } from './queue-delivery.ts'
import type { StoredQueue } from './stored-queue.ts'

/** A wait without an end; the signal ends it. */
const FOREVER_MS = Infinity

export interface OpenQueueSettings {
  readonly prefetch: number
  readonly pollIntervals: PollIntervals
}

/** A queue that a consumer receives from. */
export class OpenQueue<Tx, P> implements OpenSource<P> {
  readonly #queue: StoredQueue<Tx, P>
  readonly #settings: OpenQueueSettings
  /** The deliveries that are out. A transaction that settles one decides about it, and takes it out of this set. */
  readonly #out = new Set<QueueDelivery<Tx, P>>()
  readonly #closing = new AbortController()
  #onRoom: (() => void) | undefined
  #receiving: Promise<unknown> = Promise.resolve()

  constructor(queue: StoredQueue<Tx, P>, settings: OpenQueueSettings) {
    this.#queue = queue
    this.#settings = settings
    queue.wakeUpCall.use()
  }

  async receive(
    limit: number,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<readonly Delivery<P>[]> {
    const receiving = this.#receive(limit, AbortSignal.any([signal, this.#closing.signal]))
    this.#receiving = receiving.catch(() => undefined)
    return receiving
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return
    this.#closing.abort()
    this.#queue.wakeUpCall.release()
    await this.#receiving
    await Promise.all([...this.#out].map((delivery) => delivery.giveBack()))
  }

  async #receive(limit: number, signal: AbortSignal): Promise<readonly Delivery<P>[]> {
    await this.#room(signal)
    const { visibilityTimeoutMs } = this.#queue.settings
    const room = Math.min(limit, this.#settings.prefetch - this.#out.size, 1000)
    const request = { limit: room, visibilityTimeoutMs, remove: false, attempt: undefined }
    let lookedAt = 0
    const look = (): ReturnType<StoredQueue<Tx, P>['look']> => {
      lookedAt = performance.now()
      return this.#queue.look(request)
    }
    const waiting = { waitMs: FOREVER_MS, signal, ...this.#settings.pollIntervals }
    const received = await longPoll(look, this.#queue.wakeUpCall, waiting)
    const deliveries = received.map((stored) => {
      const ended = (): void => {
        this.#out.delete(delivery)
        this.#onRoom?.()
      }
      const lease = { until: lookedAt + visibilityTimeoutMs, ended }
      const delivery: QueueDelivery<Tx, P> = new QueueDelivery(this.#queue, stored, lease)
      this.#out.add(delivery)
      return delivery
    })
    return deliveries
  }

  /** Resolves when fewer than `prefetch` deliveries are out. */
  async #room(signal: AbortSignal): Promise<void> {
    while (this.#out.size >= this.#settings.prefetch && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#onRoom = resolve
      signal.addEventListener('abort', () => resolve(), { once: true })
      await promise
    }
  }
}
