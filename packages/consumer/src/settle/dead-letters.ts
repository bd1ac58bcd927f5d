import { PermanentError, type OutboxMessage, type PublishResult } from '@txbox/core'
import { oneLine, pause, propertyOf, reasonOf, within } from '@txbox/core/internal'
import { isPermanent, isRefusedForNow } from '../errors/failure-kind.ts'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import type { HeldDeliveries } from '../receive/held-deliveries.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'
import { Outage } from '../receive/outage.ts'
import { deadLetterMessage, reducedDeadLetters } from './dead-letter-message.ts'

/** How long the publisher of dead letters may take to answer. */
const ANSWER_MS = 30_000

/** Why a dead letter was not taken. */
interface Refusal {
  readonly error: unknown
  readonly isForGood: boolean
}

/**
 * The end of the attempts to keep a dead letter. `'left'`: the delivery was lost, could not be settled, or was given back because
 * the consumer stops.
 */
type Keeping = 'kept' | 'left' | { readonly refusedForGood: unknown }

/** Keeps messages that cannot be handled: publishes them, or lets the source keep them. */
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
    this.#held.unhandled.keep(held, { mayStay: true })
    const keeping = await (deadLetters === undefined
      ? this.#rejected(held, error)
      : this.#published(held, error, deadLetters.topic))
    if (keeping === 'left') return false
    if (keeping !== 'kept') {
      await this.#heldUntilStop(held, keeping.refusedForGood)
      return false
    }
    this.#held.remembered.forget(held.identity)
    log.events.emit('dead-lettered', { ...held.about, error })
    return held.isSettled
  }

  /** Publishes the dead letter. If it is refused for good, the source keeps it, or else a reduced dead letter is published. */
  async #published(held: HeldDelivery, error: unknown, topic: string): Promise<Keeping> {
    const letter = deadLetterMessage(held, topic, error)
    const keeping = await this.#attempted(held, error, () => this.#publish(letter))
    if (keeping === 'kept') await held.settle((delivery) => delivery.accept())
    if (typeof keeping === 'string') return keeping
    const { refusedForGood } = keeping
    if (this.#settings.source.traits.keepsRejected) {
      held.report(refused(held, refusedForGood, 'The source keeps the message instead.'))
      return this.#rejected(held, error)
    }
    let latest: Keeping = keeping
    for (const reduced of reducedDeadLetters(letter)) {
      latest = await this.#attempted(held, error, () => this.#publish(reduced))
      if (typeof latest !== 'string') continue
      if (latest === 'kept') {
        const instead = `A reduced dead letter with the id ${reduced.id} was published instead. Its headers name what it leaves out.`
        held.report(refused(held, refusedForGood, instead))
        await held.settle((delivery) => delivery.accept())
      }
      return latest
    }
    return latest
  }

  #rejected(held: HeldDelivery, error: unknown): Promise<Keeping> {
    const { deliveries } = held
    return this.#attempted(held, error, async () => {
      try {
        await held.delivery.reject({ error, deliveries, id: held.identity.id })
      } catch (failure) {
        const isForGood = isPermanent(failure)
        if (isForGood || isRefusedForNow(failure)) return { error: failure, isForGood }
        held.heartbeat?.stop()
        held.report(failure)
        return 'left'
      }
      held.heartbeat?.stop()
      held.isSettled = !held.isLost
      return held.isSettled ? 'kept' : 'left'
    })
  }

  /** Attempts until there is no refusal for now. */
  async #attempted(
    held: HeldDelivery,
    error: unknown,
    attempt: () => Promise<Refusal | 'kept' | 'left'>,
  ): Promise<Keeping> {
    const outage = new Outage()
    for (;;) {
      const refusal = await attempt()
      if (typeof refusal === 'string') return refusal
      if (held.isLost) return 'left'
      if (refusal.isForGood) return { refusedForGood: refusal.error }
      this.#held.unhandled.keep(held, { mayStay: false })
      const { retryInMs } = outage.failed(performance.now())
      if (!this.#stopping.aborted) {
        this.#settings.log.events.emit('unavailable', {
          source: held.source,
          error: refusal.error,
          retryInMs,
        })
        await pause(retryInMs, this.#stopping)
      }
      if (this.#stopping.aborted) {
        await held.settle((delivery) => delivery.retry({ delayMs: 0, counted: false, error, stopping: true }))
        return 'left'
      }
    }
  }

  async #publish(letter: OutboxMessage): Promise<Refusal | 'kept'> {
    const { publisher } = this.#settings.deadLetters!
    const late = new AbortController()
    const signal = AbortSignal.any([this.#stopping, late.signal])
    try {
      // The async function turns an error that `publish` throws into a rejection.
      const publishing = (async () => publisher.publish([letter], { signal }))()
      return refusalOf(
        await within(publishing, ANSWER_MS, (ms) => {
          const text = `The publisher of dead letters has not answered within ${ms} ms.`
          late.abort(new DOMException(text, 'TimeoutError'))
          throw new Error(text)
        }),
      )
    } catch (error) {
      return { error, isForGood: isPermanent(error) }
    }
  }

  /**
   * Keeps a delivery that can be neither handled nor settled until the consumer stops, or loses the delivery. A source that
   * counts deliveries and keeps no rejected messages would drop the message after some redeliveries.
   */
  async #heldUntilStop(held: HeldDelivery, refusal: unknown): Promise<void> {
    const { unhandled, lanes } = this.#held
    const instead =
      'There is no other place for it: the delivery remains unsettled until the consumer stops. Correct the destination of dead ' +
      'letters, or remove the message from its queue.'
    held.report(refused(held, refusal, instead))
    unhandled.keep(held, { mayStay: true })
    // The later messages of its key do not wait for a message that is not handled again.
    lanes.leave(held)
    if (unhandled.isBlocked && !this.#stopping.aborted) {
      const text =
        'Deliveries whose dead letters are refused for good have half of the room of the consumer, so no handler begins until it ' +
        'is stopped and started again.'
      const error = new PermanentError(text, { cause: refusal })
      this.#settings.log.events.emit('unavailable', { source: held.source, error, retryInMs: Infinity })
    }
    await held.wait().catch(() => undefined)
  }
}

/** @param results a publisher of the user's own may return anything. */
function refusalOf(results: readonly PublishResult[] | undefined): Refusal | 'kept' {
  const result = Array.isArray(results) ? (results as readonly PublishResult[])[0] : undefined
  if (result?.status === 'accepted') return 'kept'
  // A refusal that does not say whether it can be retried is no refusal for good.
  const isForGood = Object.is(propertyOf(result, 'retryable'), false)
  if (result?.status === 'rejected') return { error: result.error, isForGood }
  const error = new PermanentError('The publisher of dead letters has not accepted the message.')
  return { error, isForGood: false }
}

function refused({ message: { id } }: HeldDelivery, refusal: unknown, instead: string): PermanentError {
  const reason = reasonOf(refusal).replace(/\.$/, '')
  return new PermanentError(
    `The dead letter of message ${oneLine(id)} was refused for good: ${reason}. ${instead}`,
    { cause: refusal },
  )
}
