import type { DeliverySlot } from '../receive/delivery-slot.ts'
import type { Gate } from '../receive/gate.ts'
import type { Handling } from './handling.ts'

/** Calls handlers for deliveries that are ready. */
export interface Dispatcher {
  /** The number of handlers that run. */
  readonly running: number
  /** Whether a handler is free and no delivery waits for one. */
  readonly isIdle: boolean
  concurrency: number
  ready(slot: DeliverySlot): void
  /** Starts the handlers that may begin after a change of the gate or of the concurrency. */
  changed(): void
}

/** Calls one handler per delivery, in the order in which the deliveries became ready. */
export class SingleDispatcher implements Dispatcher {
  running = 0
  readonly #handling: Handling
  readonly #gate: Gate
  /** Called when a handler is free and no delivery waits for one. */
  readonly #idle: () => void
  readonly #ready = new Set<DeliverySlot>()
  #concurrency: number

  constructor(handling: Handling, gate: Gate, concurrency: number, idle: () => void) {
    this.#handling = handling
    this.#gate = gate
    this.#concurrency = concurrency
    this.#idle = idle
  }

  get concurrency(): number {
    return this.#concurrency
  }

  get isIdle(): boolean {
    return this.running < this.#concurrency && this.#ready.size === 0
  }

  set concurrency(concurrency: number) {
    this.#concurrency = concurrency
    this.changed()
    if (this.isIdle) this.#idle()
  }

  ready(slot: DeliverySlot): void {
    this.#ready.add(slot)
    this.changed()
  }

  changed(): void {
    for (const slot of this.#ready) {
      if (slot.state === 'waiting' && (!this.#gate.isOpen || this.running >= this.#concurrency)) return
      this.#ready.delete(slot)
      if (slot.state === 'waiting') void this.#begin(slot)
    }
  }

  async #begin(slot: DeliverySlot): Promise<void> {
    this.running += 1
    let isRunning = true
    const returned = (): void => {
      if (!isRunning) return
      isRunning = false
      this.running -= 1
      this.changed()
      if (this.isIdle) this.#idle()
    }
    await this.#handling.one(slot, returned)
  }
}
