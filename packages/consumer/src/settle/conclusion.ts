import { PermanentError, type PublishResult } from '@txbox/core'
import { pause, usablePause } from '@txbox/core/internal'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import { deadLetterMessage } from './dead-letter-message.ts'
import type { DeliverySlot } from '../receive/delivery-slot.ts'
import { isPermanent, isRetryLater, isStopped, isTimedOut, isUnavailable } from '../errors/failure-kind.ts'
import type { HeldDeliveries } from '../receive/held-deliveries.ts'
import type { Verdict } from '../handle/handling.ts'
import { Outage } from '../receive/outage.ts'

/** The delay in place of a wrong one, and after an error of the consumer's own work. */
const FALLBACK_DELAY_MS = 1000

/**
 * Settles each delivery according to its verdict: accepts it, retries it without a redelivery, returns it to the source, or
 * makes it a dead letter.
 */
export class Conclusion {
  readonly #settings: ConsumerSettings
  readonly #held: HeldDeliveries
  /** The pause of all messages while the database or a dedup store is unavailable. */
  readonly #outage: Outage
  /** Aborted when the consumer stops: from then on, no delivery is held for a retry. */
  readonly #stopping: AbortSignal

  constructor(settings: ConsumerSettings, held: HeldDeliveries, outage: Outage, stopping: AbortSignal) {
    this.#settings = settings
    this.#held = held
    this.#outage = outage
    this.#stopping = stopping
  }

  /** Never rejects. */
  conclude(slot: DeliverySlot, verdict: Verdict): Promise<void> {
    return this.#reporting(slot, () => this.#conclude(slot, verdict))
  }

  /** Makes the message a dead letter without calling the handler. Never rejects. */
  refuse(slot: DeliverySlot, error: unknown): Promise<void> {
    return this.#reporting(slot, () => this.#makeDeadLetter(slot, error))
  }

  /**
   * Reports an error of the work, and returns the delivery to the source. Otherwise the source would never deliver the message
   * again, because for the source the message is still being handled.
   */
  async #reporting(slot: DeliverySlot, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      this.#events.emit('error', { error, source: slot.source, message: slot.message })
      await this.#return(slot, { delayMs: FALLBACK_DELAY_MS, counted: false, error })
      this.#held.leave(slot)
    }
  }

  async #conclude(slot: DeliverySlot, verdict: Verdict): Promise<void> {
    if (verdict.kind === 'lost') {
      if (slot.isExpired && !slot.isTakenBack) this.#events.emit('lost', slot.about)
      return this.#held.leave(slot)
    }
    if (verdict.kind === 'failed') return this.#failed(slot, verdict)
    if (verdict.kind === 'in-flight') {
      const delayMs = this.#usable(slot, 'retryAfterMs of the dedup store', () => verdict.retryAfterMs)
      return this.#retryLater(slot, { delayMs, counted: false, error: inFlight() })
    }
    const { outcome, durationMs } = verdict
    this.#outage.succeeded(performance.now() - durationMs)
    const recorded = this.#settings.work.kind === 'inbox'
    if (!slot.isSettled) await this.#settle(slot, () => slot.delivery.accept({ recorded }))
    this.#held.remembered.forget(slot.message)
    this.#events.emit('handled', { ...slot.about, outcome, durationMs })
    this.#held.leave(slot)
  }

  async #failed(
    slot: DeliverySlot,
    { error, startedAt, hasWritten, marks }: Extract<Verdict, { kind: 'failed' }>,
  ): Promise<void> {
    const { work, retry } = this.#settings
    if (work.kind === 'none' && work.atMostOnce && slot.isSettled) {
      await marks?.release()
      this.#events.emit('dropped', { ...slot.about, error })
      return this.#held.leave(slot)
    }
    if (isPermanent(error)) {
      await this.#storeDeadLetter(slot, error)
      // If the dead letter was not stored, another delivery may still handle the message.
      await (slot.isSettled ? marks?.complete() : marks?.release())
      return this.#held.leave(slot)
    }
    await marks?.release()
    if (slot.isLost) return this.#held.leave(slot)
    if (isStopped(error)) return this.giveBack(slot, { delayMs: 0, counted: false, error })
    if (isUnavailable(error, hasWritten)) return this.#unavailable(slot, error, startedAt)
    if (isTimedOut(error)) {
      this.#events.emit('error', { error, source: slot.source, message: slot.message })
    }
    if (this.#isLocal(slot, error)) return this.#retryHere(slot, error)
    if (slot.deliveries >= retry.attempts) return this.#makeDeadLetter(slot, error)
    const delayMs = isRetryLater(error)
      ? this.#usable(slot, 'retryAfterMs of the error', () => error.retryAfterMs)
      : this.#usable(slot, 'delayMs of the retry policy', () => retry.delayMs(slot.deliveries, Math.random))
    return this.#retryLater(slot, { delayMs, counted: true, error })
  }

  /** Returns the delay, or 1 s if it is wrong: the source could not keep a wrong delay, and the message would not come back. */
  #usable(slot: DeliverySlot, source: string, ask: () => unknown): number {
    return usablePause(ask, {
      after: `delivery ${slot.deliveries} of a message of consumer '${this.#settings.name}'`,
      source,
      insteadMs: FALLBACK_DELAY_MS,
      report: (error) => this.#events.emit('error', { error, source: slot.source, message: slot.message }),
    })
  }

  /** Holds the delivery until the outage may be over, without counting an attempt. */
  async #unavailable(slot: DeliverySlot, error: unknown, startedAt: number): Promise<void> {
    const { retryInMs, isNew } = this.#outage.failed(startedAt)
    if (isNew) this.#events.emit('unavailable', { source: slot.source, error, retryInMs })
    if (this.#stopping.aborted) return this.giveBack(slot, { delayMs: 0, counted: false, error })
    this.#held.postpone(slot, retryInMs)
  }

  #isLocal(slot: DeliverySlot, error: unknown): boolean {
    const { localDelayMs, localRetries } = this.#settings
    return isRetryLater(error) && error.retryAfterMs <= localDelayMs && slot.localRetries < localRetries
  }

  /** Retries without a redelivery: the source is not informed, and the message waits behind the deliveries that are ready. */
  async #retryHere(slot: DeliverySlot, error: unknown): Promise<void> {
    const delayMs = isRetryLater(error) ? error.retryAfterMs : 0
    if (this.#stopping.aborted) return this.giveBack(slot, { delayMs, counted: false, error })
    slot.localRetries += 1
    this.#events.emit('retried', { ...slot.about, error, delayMs, local: true })
    if (delayMs === 0) return this.#held.runAgain(slot)
    this.#held.postpone(slot, delayMs)
  }

  /**
   * Retries in a way that counts as another delivery. The consumer holds the delivery during the delay if the source keeps
   * no delays, or does not keep the order of the key; otherwise it returns the delivery to the source.
   */
  async #retryLater(slot: DeliverySlot, how: Retry): Promise<void> {
    const { source, holdMs } = this.#settings
    const { delayMs, counted, error } = how
    this.#events.emit('retried', { ...slot.about, error, delayMs, local: false })
    const keepsOrder = source.traits.ordersKeys || !this.#settings.inOrder || slot.delivery.key === undefined
    const mayHold = !source.traits.delays || !keepsOrder
    if (this.#stopping.aborted || (source.traits.delays && (!mayHold || delayMs > holdMs))) {
      return this.giveBack(slot, how)
    }
    if (counted) slot.failure = { error }
    if (delayMs <= holdMs) {
      return this.#held.postpone(slot, delayMs, () => {
        if (counted) slot.countHeldRun()
        slot.failure = undefined
        this.#held.runAgain(slot)
      })
    }
    // The source delivers the message again at once: holding it for `holdMs` first limits how often that happens.
    this.#held.postpone(slot, holdMs, () => void this.giveBack(slot, { ...how, delayMs: delayMs - holdMs }))
  }

  /** Returns the delivery to the source. */
  async giveBack(slot: DeliverySlot, how: Retry): Promise<void> {
    const { source, inOrder } = this.#settings
    if (slot.state === 'gone') return
    slot.state = 'running'
    clearTimeout(slot.timer)
    this.#held.remembered.remember(slot.message, how.counted ? slot.deliveries : slot.deliveries - 1)
    const { key } = slot.delivery
    const isInOrder = key !== undefined && inOrder && !this.#stopping.aborted
    if (isInOrder && !source.traits.ordersKeys) this.#events.emit('order-broken', { ...slot.about, key })
    await this.#return(slot, how)
    // The source holds back the key now. The lane stays closed until the later messages of the key have been returned.
    if (isInOrder && source.traits.ordersKeys) await this.#giveBackFollowers(slot)
    this.#held.leave(slot)
  }

  async #giveBackFollowers(slot: DeliverySlot): Promise<void> {
    const error = new Error('An earlier message of the same key was returned to the source.')
    for (const follower of this.#held.behind(slot)) {
      this.#held.remembered.remember(follower.message, follower.deliveries - 1)
      await this.#return(follower, { delayMs: 0, counted: false, error })
      this.#held.leave(follower)
    }
  }

  async #makeDeadLetter(slot: DeliverySlot, error: unknown): Promise<void> {
    await this.#storeDeadLetter(slot, error)
    this.#held.leave(slot)
  }

  async #storeDeadLetter(slot: DeliverySlot, error: unknown): Promise<void> {
    const { deadLetters, source } = this.#settings
    // The source delivers a lost message again, and the message becomes a dead letter then.
    if (slot.isLost) return
    if (deadLetters === undefined && !source.traits.keepsRejected) {
      await this.#settle(slot, () => slot.delivery.accept())
      this.#events.emit('dropped', { ...slot.about, error })
      return
    }
    if (deadLetters === undefined) {
      await this.#settle(slot, () => slot.delivery.reject({ error }))
      if (!slot.isSettled) return
    } else {
      if (!(await this.#published(slot, error))) return
      await this.#settle(slot, () => slot.delivery.accept())
    }
    this.#held.remembered.forget(slot.message)
    this.#events.emit('dead-lettered', { ...slot.about, error })
  }

  /** Publishes the dead letter. @returns `false` when the consumer stops or loses the delivery before that succeeds. */
  async #published(slot: DeliverySlot, error: unknown): Promise<boolean> {
    const { publisher, topic } = this.#settings.deadLetters!
    const message = deadLetterMessage(slot, topic, error)
    const outage = new Outage()
    for (;;) {
      // The async function turns an error that `publish` throws into a rejection.
      const publishing = (async () =>
        refusalOf(await publisher.publish([message], { signal: this.#stopping })))()
      const failure = await publishing.catch(failureOf)
      if (failure === undefined) return true
      if (slot.isLost) return false
      const { retryInMs } = outage.failed(performance.now())
      if (!this.#stopping.aborted) {
        this.#events.emit('unavailable', { source: slot.source, error: failure.error, retryInMs })
        await pause(retryInMs, this.#stopping)
      }
      if (this.#stopping.aborted) {
        await this.#return(slot, { delayMs: 0, counted: false, error })
        slot.isSettled = false
        return false
      }
    }
  }

  #return(slot: DeliverySlot, how: Retry): Promise<void> {
    return this.#settle(slot, () => slot.delivery.retry({ ...how, stopping: this.#stopping.aborted }))
  }

  /** A settlement that fails is reported: the source delivers the message again. */
  async #settle(slot: DeliverySlot, settlement: () => Promise<void>): Promise<void> {
    this.#held.stopHeartbeat(slot)
    try {
      await settlement()
      slot.isSettled = !slot.isLost
    } catch (error) {
      this.#events.emit('error', { error, source: slot.source, message: slot.message })
    }
  }

  get #events(): ConsumerSettings['log']['events'] {
    return this.#settings.log.events
  }
}

interface Retry {
  readonly delayMs: number
  readonly counted: boolean
  readonly error: unknown
}

function inFlight(): Error {
  return new Error('Another delivery of the message is being handled.')
}

/** @param results a publisher of the user's own may return anything. */
function refusalOf(results: readonly PublishResult[] | undefined): { readonly error: unknown } | undefined {
  const result = Array.isArray(results) ? (results as readonly PublishResult[])[0] : undefined
  if (result?.status === 'accepted') return undefined
  return {
    error:
      result?.status === 'rejected'
        ? result.error
        : new PermanentError('The publisher of dead letters has not accepted the message.'),
  }
}

function failureOf(error: unknown): { readonly error: unknown } {
  return { error }
}
