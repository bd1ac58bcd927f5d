import type { LocalDelivery } from '../local/local-delivery-port.ts'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import type { HeldDeliveries } from '../receive/held-deliveries.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'

/** With a smaller prefetch, half of the room is a single delivery, and a key does not give up its order for the room. */
const LEAST_PREFETCH_TO_GIVE_UP_ORDER = 4

/** A key does not give up its order for a delay up to this: the delay is over before the room is missed. */
const SHORT_DELAY_MS = 100

/** How long no further delivery is held after one has left for want of room. */
const STAYS_FULL_MS = 100

/** How a delivery is returned to its source. */
export interface Return {
  readonly delayMs: number
  readonly counted: boolean
  readonly error: unknown
}

/** The next step of a delivery that the consumer keeps. */
export interface Next {
  /** How long the delivery pauses. `undefined`: its next attempt comes behind the deliveries that wait for a handler. */
  readonly pauseMs: number | undefined
  /** The failure that counts as a delivery. The source has not counted it. */
  readonly failure?: { readonly error: unknown } | undefined
  /** The delivery may leave the consumer during the pause, if its room is needed. */
  readonly retry?: Return | undefined
  /** After the pause the delivery is returned to the source. By default it is handled again. */
  readonly giveBack?: Return | undefined
}

/**
 * Decides where a delivery waits for its next attempt. The consumer holds it if the source keeps no delays, or not the order of
 * the key. But held retries take half of the room at most, so that messages which fail do not stop the others: beyond it, and for
 * delays longer than `holdMs`, the delivery leaves the consumer if its source can keep the message.
 */
export class Retries {
  readonly #settings: ConsumerSettings
  readonly #events: ConsumerSettings['log']['events']
  readonly #held: HeldDeliveries
  /** Aborted when the consumer stops: from then on, no delivery is held for a retry. */
  readonly #stopping: AbortSignal
  /** The held retries that may leave without giving up an order, the oldest first. */
  readonly #movable = new Set<HeldDelivery>()
  /** The held retries whose room was taken by another one, and that leave now. */
  readonly #moved = new Set<HeldDelivery>()
  /** Until when no further delivery is held, because others have left for want of room: with a key, and without. */
  readonly #fullUntil = { keyed: -Infinity, others: -Infinity }

  constructor(settings: ConsumerSettings, held: HeldDeliveries, stopping: AbortSignal) {
    this.#settings = settings
    this.#events = settings.log.events
    this.#held = held
    this.#stopping = stopping
  }

  /** Retries in a way that counts as another delivery. @returns what follows if the consumer keeps the delivery. */
  async later(held: HeldDelivery, how: Return): Promise<Next | undefined> {
    const { source, holdMs } = this.#settings
    const { delayMs, counted, error } = how
    if (counted) held.fail()
    this.#events.emit('retried', { ...held.about, error, delayMs, local: false })
    const { traits } = source
    const isOrdered = this.#isOrdered(held)
    if (this.#stopping.aborted || (traits.delays && (traits.ordersKeys || !isOrdered))) {
      return this.giveBack(held, how)
    }
    const failure = counted ? { error } : undefined
    if (isOrdered && traits.isExclusive === true) return { pauseMs: delayMs, failure }
    if (this.#mayLeave(held)) {
      if (delayMs <= holdMs && this.#hasRoom(held, delayMs)) return { pauseMs: delayMs, failure, retry: how }
      if (await this.#leave(held, how)) return undefined
    }
    if (delayMs <= holdMs) return { pauseMs: delayMs, failure }
    // The source delivers the message again at once: holding it for `holdMs` first limits how often that happens.
    return { pauseMs: holdMs, failure, giveBack: { ...how, delayMs: delayMs - holdMs } }
  }

  /** Waits for the next step of a delivery that the consumer keeps. @returns whether the delivery is handled again here. */
  async wait(held: HeldDelivery, { pauseMs, retry, giveBack }: Next): Promise<boolean> {
    if (pauseMs === undefined) return true
    const dueAt = performance.now() + pauseMs
    try {
      await held.pause(pauseMs)
      if (retry !== undefined && this.#moved.has(held)) {
        const delayMs = Math.max(0, dueAt - performance.now())
        if (await this.#leave(held, { ...retry, delayMs })) return false
        await held.pause(Math.max(0, dueAt - performance.now()))
      }
    } finally {
      this.#moved.delete(held)
      this.#movable.delete(held)
      this.#held.unhandled.leave(held)
    }
    if (giveBack === undefined) return true
    await this.giveBack(held, giveBack)
    return false
  }

  /** Returns the delivery to the source. Where the source keeps the order of keys, later messages of its key return, too. */
  async giveBack(held: HeldDelivery, how: Return): Promise<undefined> {
    const isInOrder = this.#isOrdered(held) && !this.#stopping.aborted
    const { ordersKeys } = this.#settings.source.traits
    if (isInOrder && !ordersKeys) this.#breakOrder(held)
    await this.return(held, how)
    if (!isInOrder || !ordersKeys) return
    // The source holds back the key now.
    await this.#returnLater(held)
  }

  /** Leaves the message of a local consumer where it is, and the later ones of its key. */
  async skip(held: HeldDelivery): Promise<undefined> {
    if (this.#isOrdered(held)) await this.#returnLater(held)
    ;(held.delivery as LocalDelivery).skip()
  }

  /** Returns the later messages of a key. The lane stays closed until they have been returned. */
  async #returnLater(held: HeldDelivery): Promise<void> {
    const error = new Error('An earlier message of the same key was returned to the source.')
    for (const later of this.#held.lanes.behind(held)) {
      later.interrupt(error)
      await later.left
    }
  }

  return(held: HeldDelivery, how: Return): Promise<void> {
    const { identity, deliveries, lostConnections } = held
    this.#held.remembered.returned(identity, {
      deliveries: how.counted ? deliveries : deliveries - 1,
      attempts: attemptsOf(held, how),
      lostConnections,
    })
    return held.settle((delivery) => delivery.retry({ ...how, stopping: this.#stopping.aborted }))
  }

  #isOrdered({ delivery: { key } }: HeldDelivery): boolean {
    return key !== undefined && this.#settings.inOrder
  }

  #mayLeave({ delivery }: HeldDelivery): boolean {
    return this.#settings.source.traits.delays || delivery.postpone !== undefined
  }

  /**
   * Whether the delivery may be held. While others leave for want of room, no further one is held, so that the room becomes free
   * for those that leave: each has its place until the source has the message.
   */
  #hasRoom(held: HeldDelivery, delayMs: number): boolean {
    const { unhandled } = this.#held
    const now = performance.now()
    if (this.#isOrdered(held)) {
      if (this.#settings.prefetch < LEAST_PREFETCH_TO_GIVE_UP_ORDER || delayMs <= SHORT_DELAY_MS) {
        unhandled.enter(held)
        return true
      }
      if (unhandled.isFull) this.#makeRoom()
      if (now >= this.#fullUntil.keyed && unhandled.enter(held)) return true
      this.#fullUntil.keyed = now + STAYS_FULL_MS
      return false
    }
    if (now >= Math.max(this.#fullUntil.keyed, this.#fullUntil.others) && unhandled.enter(held)) {
      this.#movable.add(held)
      return true
    }
    this.#fullUntil.others = now + STAYS_FULL_MS
    this.#makeRoom()
    return false
  }

  /** Lets the oldest delivery leave for which no order is given up. */
  #makeRoom(): void {
    const [oldest] = this.#movable
    if (oldest === undefined) return
    this.#movable.delete(oldest)
    this.#held.unhandled.leave(oldest)
    // A delivery whose pause is over is handled next.
    if (oldest.proceed()) this.#moved.add(oldest)
  }

  /** Lets the source keep the message. @returns whether the delivery has left the consumer. */
  async #leave(held: HeldDelivery, how: Return): Promise<boolean> {
    if (this.#settings.source.traits.delays) {
      await this.giveBack(held, how)
      return true
    }
    if (!(await held.postpone({ ...how, deliveries: attemptsOf(held, how) }))) return false
    if (this.#isOrdered(held)) this.#breakOrder(held)
    // The source keeps the number of deliveries, and counts none that was lost.
    this.#held.remembered.moved(held.identity, held.lostConnections)
    return true
  }

  #breakOrder(held: HeldDelivery): void {
    const { key } = held.delivery
    if (key !== undefined) this.#events.emit('order-broken', { ...held.about, key })
  }
}

/** The number of deliveries that count. */
function attemptsOf({ attempt }: HeldDelivery, { counted }: Return): number {
  return counted ? attempt : attempt - 1
}
