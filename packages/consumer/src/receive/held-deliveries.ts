import type { Delivery } from '@txbox/core'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import { DeliverySlot } from './delivery-slot.ts'
import { Heartbeat } from './heartbeat.ts'
import { KeyLanes } from './key-lanes.ts'
import { RememberedDeliveries } from './remembered-deliveries.ts'

/** The deliveries that a consumer has received and not settled. */
export class HeldDeliveries {
  readonly remembered = new RememberedDeliveries()
  readonly #settings: ConsumerSettings
  /** Called for a delivery that may run: it is the first of its key, and its next attempt is due. */
  readonly #ready: (slot: DeliverySlot) => void
  readonly #slots = new Map<
    DeliverySlot,
    { readonly heartbeat: Heartbeat | undefined; readonly lost: () => void }
  >()
  readonly #lanes = new KeyLanes()
  readonly #waiters = new Set<{ readonly condition: () => boolean; readonly resolve: () => void }>()
  /** The number of held deliveries whose message may crash the process. */
  #suspects = 0

  constructor(settings: ConsumerSettings, ready: (slot: DeliverySlot) => void) {
    this.#settings = settings
    this.#ready = ready
  }

  get size(): number {
    return this.#slots.size
  }

  /** The number of deliveries that may still be received: none while a held message may crash the process. */
  get room(): number {
    return this.#suspects > 0 ? 0 : this.#settings.prefetch - this.#slots.size
  }

  /** The held deliveries, in the order in which they were received. */
  get slots(): readonly DeliverySlot[] {
    return [...this.#slots.keys()]
  }

  count(state: DeliverySlot['state']): number {
    return this.slots.filter((slot) => slot.state === state).length
  }

  /** Holds a delivery from now on, and extends its lease. */
  take(delivery: Delivery): DeliverySlot {
    const { source } = this.#settings
    const slot = new DeliverySlot(delivery, source.name, this.#rememberedOf(delivery))
    const lost = (): void => {
      slot.isTakenBack = true
      this.#lose(slot)
    }
    if (delivery.isSuspect === true) this.#suspects += 1
    this.#slots.set(slot, { heartbeat: this.#heartbeat(slot), lost })
    if (delivery.onLost !== undefined) delivery.onLost(lost)
    else if (delivery.lost.aborted) lost()
    else delivery.lost.addEventListener('abort', lost, { once: true })
    return slot
  }

  /**
   * Returns the number of remembered deliveries. For a source that keeps both delays and counts it is 0: the source's own
   * count is exact then, and restarts when the message is redriven.
   */
  #rememberedOf({ message }: Delivery): number {
    const { delays, countsDeliveries } = this.#settings.source.traits
    return delays && countsDeliveries ? 0 : this.remembered.of(message)
  }

  /** Lets the delivery wait until the earlier messages of its key have left. */
  queue(slot: DeliverySlot): void {
    if (slot.state === 'gone') return
    if (!this.#settings.inOrder || this.#lanes.enter(slot)) this.#ready(slot)
  }

  /** Lets the delivery wait for its next attempt. Later deliveries of its key wait behind it. */
  postpone(slot: DeliverySlot, delayMs: number, then: () => void = () => this.runAgain(slot)): void {
    slot.state = 'retrying'
    slot.timer = setTimeout(then, delayMs)
  }

  runAgain(slot: DeliverySlot): void {
    slot.state = 'waiting'
    this.#ready(slot)
  }

  /** The lease needs no extension while a transaction holds the message. */
  pauseHeartbeat(slot: DeliverySlot, isPaused: boolean): void {
    const heartbeat = this.#slots.get(slot)?.heartbeat
    if (heartbeat !== undefined) heartbeat.isPaused = isPaused
  }

  stopHeartbeat(slot: DeliverySlot): void {
    this.#slots.get(slot)?.heartbeat?.stop()
  }

  /**
   * Returns whether no other delivery can run: every other held delivery waits behind another delivery of its key, or is a
   * suspect that was received later.
   */
  isAlone(slot: DeliverySlot): boolean {
    let isLater = false
    for (const other of this.#slots.keys()) {
      if (other === slot) isLater = true
      else {
        const isSuspect = isLater && other.delivery.isSuspect === true
        if (other.state !== 'waiting' || (!isSuspect && this.#lanes.isFirst(other))) return false
      }
    }
    return true
  }

  /** The deliveries of the same key that were received after this delivery. */
  behind(slot: DeliverySlot): readonly DeliverySlot[] {
    return this.#lanes.behind(slot)
  }

  /** Removes a delivery that was settled or lost. The next delivery of its key may run. */
  leave(slot: DeliverySlot): void {
    const entry = this.#slots.get(slot)
    if (entry === undefined) return
    this.#slots.delete(slot)
    if (slot.delivery.isSuspect === true) this.#suspects -= 1
    slot.state = 'gone'
    clearTimeout(slot.timer)
    entry.heartbeat?.stop()
    if (slot.delivery.onLost === undefined) slot.delivery.lost.removeEventListener('abort', entry.lost)
    const next = this.#lanes.leave(slot)
    if (next !== undefined) this.#ready(next)
    this.wake()
  }

  /** Waits until `condition` returns true. The condition is checked whenever a delivery leaves, and by `wake`. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const waiter = { condition, resolve }
      this.#waiters.add(waiter)
      await promise
      this.#waiters.delete(waiter)
    }
  }

  wake(): void {
    for (const { condition, resolve } of this.#waiters) if (condition()) resolve()
  }

  #lose(slot: DeliverySlot): void {
    slot.call?.deliveryLost()
    if (slot.isSettled || slot.state === 'gone') return
    this.#settings.log.events.emit('lost', slot.about)
    // The source has not counted the attempts for which the consumer held the delivery. An attempt that has not begun does
    // not count.
    this.remembered.remember(slot.message, slot.state === 'waiting' ? slot.deliveries - 1 : slot.deliveries)
    // A running delivery leaves when its handler has ended, so that no other message of its key runs at the same time.
    if (slot.state === 'running') this.stopHeartbeat(slot)
    else this.leave(slot)
  }

  #heartbeat(slot: DeliverySlot): Heartbeat | undefined {
    const { source, log } = this.#settings
    const { leaseMs } = source.traits
    if (leaseMs === undefined || slot.delivery.extend === undefined) return undefined
    return new Heartbeat(
      leaseMs,
      async () => slot.delivery.extend?.(leaseMs),
      (error) => log.events.emit('error', { error, source: source.name, message: slot.message }),
    )
  }
}
