import type { Delivery, InboxMessage } from '@txbox/core'
import type { LocalDelivery } from '../local/local-delivery-port.ts'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import { Heartbeats } from './heartbeats.ts'
import { HeldDelivery } from './held-delivery.ts'
import { HeldRoom } from './held-room.ts'
import { KeyLanes } from './key-lanes.ts'
import { identified } from './identified.ts'
import { NOTHING_EARLIER, RememberedDeliveries, type EarlierDeliveries } from './remembered-deliveries.ts'

const LOST = new Error('The source has taken the delivery back.')

/** The deliveries that a consumer has received and not settled. */
export class HeldDeliveries {
  readonly remembered: RememberedDeliveries
  readonly lanes = new KeyLanes()
  /** The room of the deliveries that are held although nobody handles them. */
  readonly unhandled: HeldRoom
  /** The number of handled deliveries whose acceptance has not been answered. */
  #accepting = 0
  readonly #settings: ConsumerSettings
  readonly #heartbeats: Heartbeats | undefined
  readonly #held = new Set<HeldDelivery>()
  /** The conditions that are waited for, and what ends the wait. */
  readonly #waiting = new Map<() => boolean, () => void>()
  /** The number of held deliveries whose message may crash the process. */
  #suspects = 0
  /** The suspects that wait until no other delivery can run. */
  readonly #waitingSuspects = new Set<HeldDelivery>()

  constructor(settings: ConsumerSettings) {
    const { leaseMs } = settings.source.traits
    this.#settings = settings
    this.remembered = new RememberedDeliveries(settings.prefetch)
    this.unhandled = new HeldRoom(settings.prefetch)
    this.#heartbeats = leaseMs === undefined ? undefined : new Heartbeats(leaseMs)
  }

  get size(): number {
    return this.#held.size
  }

  /** The number of deliveries that may still be received: none while a held message may crash the process. */
  get room(): number {
    return this.#suspects > 0 ? 0 : this.#settings.prefetch - this.#held.size
  }

  /** Whether half of the room is about to be free: the source accepts at least half of the deliveries that may be held. */
  get isEmptying(): boolean {
    return this.#accepting * 2 >= this.#settings.prefetch
  }

  /** The held deliveries, in the order in which they were received. */
  get all(): readonly HeldDelivery[] {
    return [...this.#held]
  }

  /** Holds a delivery from now on, and extends its lease. */
  take(delivery: Delivery): HeldDelivery {
    const is = identified(delivery, this.#settings.keyTextOf)
    const held = new HeldDelivery(delivery, this.#settings, is, this.#earlier(is.message))
    if (delivery.isSuspect === true) this.#suspects += 1
    this.#held.add(held)
    if (delivery.extend !== undefined) held.heartbeat = this.#heartbeats?.start(held)
    held.lost = () => this.#lose(held)
    if (delivery.onLost !== undefined) delivery.onLost(held.lost)
    else if (delivery.lost.aborted) held.lost()
    else delivery.lost.addEventListener('abort', held.lost, { once: true })
    return held
  }

  /**
   * Returns what is remembered about earlier deliveries. For a source that keeps both delays and counts, the number of deliveries
   * is not: the source's own count is exact then, and restarts when the message is redriven.
   */
  #earlier(message: InboxMessage): EarlierDeliveries {
    const { delays, countsDeliveries } = this.#settings.source.traits
    const earlier = this.remembered.of(message)
    if (!delays || countsDeliveries !== true) return earlier
    return { ...NOTHING_EARLIER, lostConnections: earlier.lostConnections }
  }

  /** The source has lost a delivery before the consumer received it. */
  lostUnseen(delivery: Delivery): void {
    this.remembered.lost(identified(delivery, this.#settings.keyTextOf).message)
  }

  /** Waits until no other delivery can run beside this one. */
  waitAlone(held: HeldDelivery): Promise<void> {
    const waiting = held.wait()
    this.#waitingSuspects.add(held)
    // This one may be alone already. Or an earlier suspect is, because this one waits now.
    this.wake()
    return waiting
  }

  /**
   * Returns whether no other delivery can run: every other held delivery waits behind another delivery of its key, or is a
   * suspect that was received later.
   */
  #isAlone(held: HeldDelivery): boolean {
    let isLater = false
    for (const other of this.#held) {
      if (other === held) isLater = true
      else {
        const isSuspect = isLater && other.delivery.isSuspect === true
        if (!other.isWaiting || (!isSuspect && this.lanes.isFirst(other))) return false
      }
    }
    return true
  }

  /** Settles a delivery that was handled. Never rejects. */
  async accept(held: HeldDelivery, accept: (delivery: Delivery) => Promise<void>): Promise<void> {
    this.#accepting += 1
    await held.settle(accept)
    this.#accepting -= 1
  }

  /** Removes a delivery that was settled or lost. The next delivery of its key may run. */
  leave(held: HeldDelivery): void {
    this.#held.delete(held)
    this.unhandled.leave(held)
    if (held.delivery.isSuspect === true) this.#suspects -= 1
    held.heartbeat?.stop()
    if (held.delivery.onLost === undefined) held.delivery.lost.removeEventListener('abort', held.lost)
    this.lanes.leave(held)
    // Only deliveries to local consumers have this method.
    ;(held.delivery as Partial<LocalDelivery>).left?.()
    this.wake()
  }

  /** Waits until `condition` returns true. The condition is checked whenever a delivery leaves, and by `wake`. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((wake) => void this.#waiting.set(condition, wake))
  }

  wake(): void {
    for (const suspect of this.#waitingSuspects) {
      if (suspect.isWaiting && !this.#isAlone(suspect)) continue
      this.#waitingSuspects.delete(suspect)
      suspect.proceed()
    }
    for (const [condition, wake] of this.#waiting) {
      if (condition() && this.#waiting.delete(condition)) wake()
    }
  }

  #lose(held: HeldDelivery): void {
    held.isTakenBack = true
    held.call?.deliveryLost()
    if (held.isSettled || held.isAccepting || !this.#held.has(held)) return
    this.#settings.log.events.emit('lost', held.about)
    // An attempt that was interrupted by the loss did not fail.
    const { deliveries, failures, lostConnections } = held
    this.remembered.lost(held.identity, { deliveries, attempts: failures, lostConnections })
    held.heartbeat?.stop()
    // A running delivery leaves when its handler has ended, so that no other message of its key runs at the same time.
    held.interrupt(LOST)
  }
}
