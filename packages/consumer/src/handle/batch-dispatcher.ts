import type { Batcher } from '../batcher/batcher.ts'
import { createBatcher } from '../batcher/create-batcher.ts'
import type { DeliverySlot } from '../receive/delivery-slot.ts'
import type { Dispatcher } from './dispatcher.ts'
import type { Gate } from '../receive/gate.ts'
import type { Handling } from './handling.ts'

/** Calls handlers for batches of deliveries. */
export class BatchDispatcher implements Dispatcher {
  running = 0
  readonly concurrency: number
  readonly #handling: Handling
  readonly #gate: Gate
  /** Called when a handler is free. */
  readonly #idle: () => void
  readonly #batcher: Batcher<DeliverySlot>
  #opened = Promise.withResolvers<void>()

  constructor(
    handling: Handling,
    gate: Gate,
    options: { concurrency: number; prefetch: number; maxSize: number; lingerMs: number },
    idle: () => void,
  ) {
    const { concurrency, prefetch, maxSize, lingerMs } = options
    this.#handling = handling
    this.#gate = gate
    this.#idle = idle
    this.concurrency = concurrency
    this.#batcher = createBatcher<DeliverySlot>({
      process: (slots) => this.#begin(slots),
      maxSize,
      lingerMs,
      concurrency,
      // Room for all held deliveries, and for deliveries that were settled or lost while they waited for their batch.
      capacity: Math.max(maxSize, prefetch) * 2,
      logger: false,
    })
  }

  /** Ignores waiting deliveries, which may wait for their batch to be full. */
  get isIdle(): boolean {
    return this.running < this.concurrency
  }

  ready(slot: DeliverySlot): void {
    // The promise cannot reject, because the batcher is never closed.
    void this.#batcher.added(slot)
  }

  changed(): void {
    this.#opened.resolve()
    this.#opened = Promise.withResolvers<void>()
  }

  async #begin(slots: readonly DeliverySlot[]): Promise<void> {
    while (!this.#gate.isOpen) await this.#opened.promise
    // Deliveries may have been lost, or returned to the source, while they waited for their batch.
    const waiting = slots.filter((slot) => slot.state === 'waiting')
    if (waiting.length === 0) return
    this.running += 1
    // With manual acknowledgement the batch ends when the handler has returned.
    await new Promise<void>((resolve) => void this.#handling.several(waiting, resolve))
    this.running -= 1
    this.#idle()
  }
}
