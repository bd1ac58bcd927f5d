import { PermanentError, type PublishResult } from '@txbox/core'
import { pause } from '@txbox/core/internal'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import type { HeldDeliveries } from '../receive/held-deliveries.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'
import { Outage } from '../receive/outage.ts'
import { deadLetterMessage } from './dead-letter-message.ts'

export class DeadLetters {
  readonly #settings: ConsumerSettings
  readonly #held: HeldDeliveries
  readonly #stopping: AbortSignal

  constructor(settings: ConsumerSettings, held: HeldDeliveries, stopping: AbortSignal) {
    this.#settings = settings
    this.#held = held
    this.#stopping = stopping
  }

  /** @returns whether the message was settled. Otherwise it is delivered again, and may be handled then. */
  async store(held: HeldDelivery, error: unknown): Promise<boolean> {
    const { deadLetters, source, log } = this.#settings
    // The source delivers a lost message again, and the message becomes a dead letter then.
    if (held.isLost) return held.isSettled
    if (deadLetters === undefined && !source.traits.keepsRejected) {
      await held.settle((delivery) => delivery.accept())
      log.events.emit('dropped', { ...held.about, error })
      return held.isSettled
    }
    if (deadLetters === undefined) {
      await held.settle((delivery) => delivery.reject({ error }))
      if (!held.isSettled) return false
    } else {
      if (!(await this.#published(held, error))) return false
      await held.settle((delivery) => delivery.accept())
    }
    this.#held.remembered.forget(held.message)
    log.events.emit('dead-lettered', { ...held.about, error })
    return held.isSettled
  }

  /** Publishes the dead letter. @returns `false` when the consumer stops or loses the delivery before that succeeds. */
  async #published(held: HeldDelivery, error: unknown): Promise<boolean> {
    const { publisher, topic } = this.#settings.deadLetters!
    const message = deadLetterMessage(held, topic, error)
    const outage = new Outage()
    for (;;) {
      // The async function turns an error that `publish` throws into a rejection.
      const publishing = (async () =>
        refusalOf(await publisher.publish([message], { signal: this.#stopping })))()
      const failure = await publishing.catch((thrown: unknown) => ({ error: thrown }))
      if (failure === undefined) return true
      if (held.isLost) return false
      const { retryInMs } = outage.failed(performance.now())
      if (!this.#stopping.aborted) {
        this.#settings.log.events.emit('unavailable', {
          source: held.source,
          error: failure.error,
          retryInMs,
        })
        await pause(retryInMs, this.#stopping)
      }
      if (this.#stopping.aborted) {
        await held.settle((delivery) => delivery.retry({ delayMs: 0, counted: false, error, stopping: true }))
        return false
      }
    }
  }
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
