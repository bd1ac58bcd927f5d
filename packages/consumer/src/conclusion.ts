import { PermanentError, type PublishResult } from '@txbox/core'
import type { ConsumerSettings } from './consumer-settings.ts'
import { deadLetterMessage } from './dead-letter-message.ts'
import type { DeliverySlot } from './delivery-slot.ts'
import { isPermanent, isRetryLater, isStopped, isTimedOut, isUnavailable } from './failure-kind.ts'
import type { Hand } from './hand.ts'
import type { Verdict } from './handling.ts'
import { Outage } from './outage.ts'
import { wait } from './wait.ts'

/** Settles deliveries by their verdicts: accepts one, retries it here, gives it back, or makes a dead letter of it. */
export class Conclusion {
  readonly #settings: ConsumerSettings
  readonly #hand: Hand
  /** The pause for all messages while what they need cannot be reached. */
  readonly #outage: Outage
  /** Aborted when the consumer stops: nothing waits here from then on. */
  readonly #stopping: AbortSignal

  constructor(settings: ConsumerSettings, hand: Hand, outage: Outage, stopping: AbortSignal) {
    this.#settings = settings
    this.#hand = hand
    this.#outage = outage
    this.#stopping = stopping
  }

  /** Never rejects. */
  async conclude(slot: DeliverySlot, verdict: Verdict): Promise<void> {
    try {
      await this.#conclude(slot, verdict)
    } catch (error) {
      // The delivery is not settled: the source delivers the message again.
      this.#events.emit('error', { error, source: slot.source, message: slot.message })
      this.#hand.leave(slot)
    }
  }

  async #conclude(slot: DeliverySlot, verdict: Verdict): Promise<void> {
    if (verdict.kind === 'lost') {
      if (slot.isExpired && !slot.delivery.lost.aborted) this.#events.emit('lost', slot.about)
      return this.#hand.leave(slot)
    }
    if (verdict.kind === 'failed') return this.#failed(slot, verdict)
    if (verdict.kind === 'in-flight') {
      return this.#retryLater(slot, { delayMs: verdict.retryAfterMs, counted: false, error: inFlight() })
    }
    const { outcome, durationMs } = verdict
    this.#outage.succeeded(performance.now() - durationMs)
    const recorded = this.#settings.work.kind === 'inbox'
    if (!slot.isSettled) await this.#settle(slot, () => slot.delivery.accept({ recorded }))
    this.#hand.remembered.forget(slot.message)
    this.#events.emit('handled', { ...slot.about, outcome, durationMs })
    this.#hand.leave(slot)
  }

  async #failed(
    slot: DeliverySlot,
    { error, startedAt, marks }: Extract<Verdict, { kind: 'failed' }>,
  ): Promise<void> {
    const { work, retry } = this.#settings
    if (work.kind === 'none' && work.atMostOnce && slot.isSettled) {
      await marks?.release()
      this.#events.emit('dropped', { ...slot.about, error })
      return this.#hand.leave(slot)
    }
    if (isPermanent(error)) {
      await this.#bury(slot, error)
      // A message that the dead letters do not have may still be handled by another delivery.
      await (slot.isSettled ? marks?.complete() : marks?.release())
      return this.#hand.leave(slot)
    }
    await marks?.release()
    if (slot.isLost) return this.#hand.leave(slot)
    if (isStopped(error)) return this.giveBack(slot, { delayMs: 0, counted: false, error })
    if (isUnavailable(error)) return this.#unavailable(slot, error, startedAt)
    if (isTimedOut(error)) {
      this.#events.emit('error', { error, source: slot.source, message: slot.message })
    }
    if (this.#isLocal(slot, error)) return this.#retryHere(slot, error)
    if (slot.deliveries >= retry.attempts) return this.bury(slot, error)
    const delayMs = isRetryLater(error) ? error.retryAfterMs : this.#delayMs(slot)
    return this.#retryLater(slot, { delayMs, counted: true, error })
  }

  /** The pause that the retry policy names. A policy that throws must not keep the delivery in hand forever. */
  #delayMs(slot: DeliverySlot): number {
    try {
      return this.#settings.retry.delayMs(slot.deliveries, Math.random)
    } catch (error) {
      this.#events.emit('error', { error, source: slot.source, message: slot.message })
      return 1000
    }
  }

  /** The delivery waits here with all others; no attempt is counted. */
  async #unavailable(slot: DeliverySlot, error: unknown, startedAt: number): Promise<void> {
    const { retryInMs, isNew } = this.#outage.failed(startedAt)
    if (isNew) this.#events.emit('unavailable', { source: slot.source, error, retryInMs })
    if (this.#stopping.aborted) return this.giveBack(slot, { delayMs: 0, counted: false, error })
    this.#hand.postpone(slot, retryInMs)
  }

  #isLocal(slot: DeliverySlot, error: unknown): boolean {
    const { localDelayMs, localRetries } = this.#settings
    return isRetryLater(error) && error.retryAfterMs <= localDelayMs && slot.localRetries < localRetries
  }

  /** The broker does not hear of this retry: the message goes behind what waits here. */
  async #retryHere(slot: DeliverySlot, error: unknown): Promise<void> {
    const delayMs = isRetryLater(error) ? error.retryAfterMs : 0
    if (this.#stopping.aborted) return this.giveBack(slot, { delayMs, counted: false, error })
    slot.localRetries += 1
    this.#events.emit('retried', { ...slot.about, error, delayMs, local: true })
    if (delayMs === 0) return this.#hand.runAgain(slot)
    this.#hand.postpone(slot, delayMs)
  }

  /** The next attempt counts as another delivery, from hand where the source does not keep the delay or the order. */
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
      return this.#hand.postpone(slot, delayMs, () => {
        if (counted) slot.countRunFromHand()
        slot.failure = undefined
        this.#hand.runAgain(slot)
      })
    }
    // The source would deliver the message again at once: the wait here bounds how often that happens.
    this.#hand.postpone(slot, holdMs, () => void this.giveBack(slot, { ...how, delayMs: delayMs - holdMs }))
  }

  /** The delivery goes back to the source. */
  async giveBack(slot: DeliverySlot, how: Retry): Promise<void> {
    const { source, inOrder } = this.#settings
    if (slot.state === 'gone') return
    slot.state = 'running'
    clearTimeout(slot.timer)
    this.#hand.remembered.remember(slot.message, how.counted ? slot.deliveries : slot.deliveries - 1)
    const { key } = slot.delivery
    const isInOrder = key !== undefined && inOrder && !this.#stopping.aborted
    if (isInOrder && !source.traits.ordersKeys) this.#events.emit('order-broken', { ...slot.about, key })
    await this.#settle(slot, () => slot.delivery.retry(how))
    // From now on the source holds the key back. The lane stays closed until what is behind has gone back, too.
    if (isInOrder && source.traits.ordersKeys) await this.#giveBackBehind(slot)
    this.#hand.leave(slot)
  }

  async #giveBackBehind(slot: DeliverySlot): Promise<void> {
    const error = new Error('An earlier message of the key goes back to the source.')
    for (const follower of this.#hand.behind(slot)) {
      this.#hand.remembered.remember(follower.message, follower.deliveries - 1)
      await this.#settle(follower, () => follower.delivery.retry({ delayMs: 0, counted: false, error }))
      this.#hand.leave(follower)
    }
  }

  /** The message becomes a dead letter. */
  async bury(slot: DeliverySlot, error: unknown): Promise<void> {
    await this.#bury(slot, error)
    this.#hand.leave(slot)
  }

  async #bury(slot: DeliverySlot, error: unknown): Promise<void> {
    const { deadLetters, source } = this.#settings
    // The message comes again, and becomes a dead letter then.
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
    this.#hand.remembered.forget(slot.message)
    this.#events.emit('dead-lettered', { ...slot.about, error })
  }

  /** Publishes the dead letter. @returns `false` when the consumer stops or loses the delivery before that succeeds. */
  async #published(slot: DeliverySlot, error: unknown): Promise<boolean> {
    const { publisher, topic } = this.#settings.deadLetters!
    const message = deadLetterMessage(slot, topic, error)
    const outage = new Outage()
    for (;;) {
      // The async function turns an error that `publish` throws into a rejection.
      const publishing = (async () => publisher.publish([message], { signal: this.#stopping }))()
      const failure = await publishing.then(refusalOf, failureOf)
      if (failure === undefined) return true
      if (slot.isLost) return false
      const { retryInMs } = outage.failed(performance.now())
      if (!this.#stopping.aborted) {
        this.#events.emit('unavailable', { source: slot.source, error: failure.error, retryInMs })
        await wait(retryInMs, this.#stopping)
      }
      if (this.#stopping.aborted) {
        await this.#settle(slot, () => slot.delivery.retry({ delayMs: 0, counted: false, error }))
        slot.isSettled = false
        return false
      }
    }
  }

  /** A settlement that fails is reported: the source delivers the message again. */
  async #settle(slot: DeliverySlot, settlement: () => Promise<void>): Promise<void> {
    this.#hand.stopHeartbeat(slot)
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

function refusalOf(results: readonly PublishResult[]): { readonly error: unknown } | undefined {
  const [result] = results
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
