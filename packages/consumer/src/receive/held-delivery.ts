import type { Delivery, InboxMessage } from '@txbox/core'
import { copyMessage } from '@txbox/core/internal'
import type { MessageEvent } from '../options/consumer.ts'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import type { Heartbeat } from './heartbeats.ts'
import { withId, type Identified } from './identified.ts'
import type { EarlierDeliveries } from './remembered-deliveries.ts'

/** A call of the handler that has not ended. */
interface RunningCall {
  readonly durationMs: number
  giveUp(reason: unknown): void
  deliveryLost(): void
}

/** One delivery that the consumer holds, from its receipt until it is settled or lost. It waits for one thing at a time. */
export class HeldDelivery {
  readonly delivery: Delivery
  /** The identity of the message as it was received: a handler may change its message. */
  readonly identity: { readonly source: string | undefined; readonly id: string }
  /** Why the message cannot be handled by any attempt. */
  readonly problem: unknown
  /** Why the message was delivered too often. It is no longer handled, but may be a duplicate. */
  refusal: Error | undefined
  localRetries = 0
  /** How often the message was retried uncounted because its transaction has lost its connection. */
  lostConnections: number
  /** The number of attempts that have failed. */
  failures: number
  /** Whether the source has settled the delivery, possibly in the handler's transaction or before the handler was called. */
  isSettled = false
  /** Whether the delivery is accepted before the handler is called. If the connection breaks now, the message may be gone. */
  isAccepting = false
  /** Whether the source has reported that another consumer may have received the message. */
  isExpired = false
  /** Whether the broker has taken back the delivery. */
  isTakenBack = false
  call: RunningCall | undefined
  heartbeat: Heartbeat | undefined
  lost: () => void = () => undefined
  /** Resolves when the delivery is no longer held. */
  left: Promise<void> | undefined
  readonly #settings: ConsumerSettings
  readonly #firstDeliveries: number
  readonly #firstAttempt: number
  #heldRuns = 0
  /** The message of the attempt that runs, or of the last one. */
  #message: InboxMessage
  /** A copy of the message as received, if the source does not decode the message again. */
  #received: InboxMessage | undefined
  /** Whether an attempt has had the message, and may have changed it. */
  #isUsed = false
  #waiting: PromiseWithResolvers<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #interruption: unknown

  /** @param earlier what this process remembers about the earlier deliveries of the message. */
  constructor(
    delivery: Delivery,
    settings: ConsumerSettings,
    { message, problem }: Identified,
    { deliveries, attempts, lost, lostConnections }: EarlierDeliveries,
  ) {
    this.delivery = delivery
    this.#message = message
    this.identity = { source: message.source, id: message.id }
    this.problem = problem
    this.#settings = settings
    this.#firstDeliveries = Math.max(delivery.deliveries, deliveries + 1)
    this.#firstAttempt = Math.max(delivery.deliveries - lost, attempts + 1)
    this.failures = this.attempt - 1
    this.lostConnections = lostConnections
  }

  get source(): string {
    return this.#settings.source.name
  }

  get message(): InboxMessage {
    return this.#message
  }

  /** The number of deliveries. An attempt for which the consumer held the delivery counts as another delivery. */
  get deliveries(): number {
    return this.#firstDeliveries + this.#heldRuns
  }

  /** The number of the current attempt: the deliveries without those that were lost with their connections. */
  get attempt(): number {
    return this.#firstAttempt + this.#heldRuns
  }

  get isLost(): boolean {
    return this.isExpired || this.isTakenBack
  }

  get about(): MessageEvent {
    return { source: this.source, message: this.message, deliveries: this.deliveries }
  }

  /** Whether the delivery waits for an earlier message of its key, or for its turn. */
  get isWaiting(): boolean {
    return this.#waiting !== undefined && this.#timer === undefined
  }

  /** Whether the delivery waits for its next attempt. */
  get isPausing(): boolean {
    return this.#timer !== undefined
  }

  /** The reason of the first call of `interrupt`. */
  get interruption(): unknown {
    return this.#interruption
  }

  /** The attempt has failed, and counts. */
  fail(): void {
    this.failures = this.attempt
  }

  /** Must be called before each attempt: the attempt sees the message as received, whatever an earlier one has changed in it. */
  renewMessage(): void {
    const { delivery } = this
    if (delivery.decodeAgain !== undefined) {
      if (this.#isUsed) this.#message = withId(delivery.decodeAgain(), this.identity.id)
    } else if (this.#received === undefined) this.#received = copyMessage(this.#message)
    else this.#message = copyMessage(this.#received)
    this.#isUsed = true
  }

  /** @param isCounted whether the next attempt counts as another delivery. */
  beginAgain({ isCounted }: { readonly isCounted: boolean }): void {
    if (!isCounted) return
    this.#heldRuns += 1
    this.localRetries = 0
  }

  /** Waits until `proceed` is called. Rejects with the reason of `interrupt`, also if that was called before. */
  wait(): Promise<void> {
    // oxlint-disable-next-line prefer-promise-reject-errors
    if (this.#interruption !== undefined) return Promise.reject(this.#interruption)
    this.#waiting = Promise.withResolvers()
    return this.#waiting.promise
  }

  /** Waits for the next attempt. */
  pause(delayMs: number): Promise<void> {
    const waiting = this.wait()
    if (this.isWaiting) this.#timer = setTimeout(() => this.proceed(), delayMs)
    return waiting
  }

  /** Ends the wait. @returns whether the delivery has waited. */
  proceed(): boolean {
    const waiting = this.#endWait()
    waiting?.resolve()
    return waiting !== undefined
  }

  /** Ends the wait, and all later ones: the delivery was lost, or must return to its source. What runs is not affected. */
  interrupt(reason: unknown): void {
    if (this.#interruption !== undefined) return
    this.#interruption = reason
    this.#endWait()?.reject(reason)
  }

  /**
   * Accepts the delivery before the handler is called. If it is lost meanwhile, nobody knows whether the source has received the
   * acceptance, so the delivery counts as settled.
   */
  async acceptFirst(): Promise<void> {
    this.isAccepting = true
    try {
      await this.delivery.accept({ beforeHandling: true })
    } catch (error) {
      this.isAccepting = false
      throw error
    }
    this.heartbeat?.stop()
    this.isSettled = true
  }

  /** Settles the delivery. A settlement that fails is reported: the source delivers the message again. */
  async settle(settlement: (delivery: Delivery) => Promise<void>): Promise<void> {
    this.heartbeat?.stop()
    try {
      await settlement(this.delivery)
      this.isSettled = !this.isLost
    } catch (error) {
      this.report(error)
    }
  }

  /** Lets the source keep the message for a time. @returns whether the delivery is settled. Otherwise it is still held. */
  async postpone(how: Parameters<NonNullable<Delivery['postpone']>>[0]): Promise<boolean> {
    try {
      if ((await this.delivery.postpone?.(how)) !== true) return false
    } catch (error) {
      this.report(error)
      return false
    }
    this.heartbeat?.stop()
    this.isSettled = !this.isLost
    return true
  }

  async extend(): Promise<void> {
    await this.delivery.extend?.(this.#settings.source.traits.leaseMs!)
  }

  /** Reports that the database asks for the same work again, in the same call, which does not count as a delivery. */
  reportConflict(error: unknown, delayMs: number): void {
    this.#settings.log.events.emit('retried', { ...this.about, error, delayMs, local: true })
  }

  report(error: unknown): void {
    this.#settings.log.events.emit('error', { error, source: this.source, message: this.message })
  }

  #endWait(): PromiseWithResolvers<void> | undefined {
    const waiting = this.#waiting
    this.#waiting = undefined
    clearTimeout(this.#timer)
    this.#timer = undefined
    return waiting
  }
}
