import { exponentialBackoff, type RetryLaterError } from '@txbox/core'
import { isDiagnosed, usablePause } from '@txbox/core/internal'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import { isPermanent, isRetryLater, isStopped, isTimedOut, mayHaveCommitted } from '../errors/failure-kind.ts'
import type { Verdict } from '../handle/handling.ts'
import type { HeldDeliveries } from '../receive/held-deliveries.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'
import type { Outage } from '../receive/outage.ts'
import { DeadLetters } from './dead-letters.ts'
import { Retries, type Next } from './retries.ts'

/** The delay in place of a wrong one, and after an error of the consumer's own work. */
const FALLBACK_DELAY_MS = 1000

/** The pause of the message of a local consumer after conflicts in all attempts of a transaction. No attempt is counted. */
const CONFLICT_DELAY_MS = 1000

/** How often a message is retried uncounted because its transaction has lost its connection, and the pauses before that. */
const LOST_CONNECTIONS = 3
const LOST_CONNECTION_PAUSES = exponentialBackoff({
  minMs: 100,
  maxMs: 3000,
  attempts: LOST_CONNECTIONS + 1,
})

/** The delivery waits for its turn again. */
const HELD_BACK: Promise<Next> = Promise.resolve({ pauseMs: undefined })

/**
 * Settles each delivery according to its verdict: accepts it, returns it to the source, makes it a dead letter, or keeps it for
 * another attempt.
 */
export class Conclusion {
  readonly retries: Retries
  readonly #deadLetters: DeadLetters
  readonly #settings: ConsumerSettings
  readonly #events: ConsumerSettings['log']['events']
  readonly #held: HeldDeliveries
  /** The pause of all messages while the database or a dedup store is unavailable. */
  readonly #outage: Outage
  /** Aborted when the consumer stops: from then on, no delivery is held for a retry. */
  readonly #stopping: AbortSignal
  readonly #accept: (delivery: HeldDelivery['delivery']) => Promise<void>

  constructor(settings: ConsumerSettings, held: HeldDeliveries, outage: Outage, stopping: AbortSignal) {
    this.#settings = settings
    this.#events = settings.log.events
    this.#held = held
    this.#outage = outage
    this.#stopping = stopping
    this.retries = new Retries(settings, held, stopping)
    this.#deadLetters = new DeadLetters(settings, held, stopping)
    const how = { recorded: settings.work.kind === 'inbox' }
    this.#accept = (delivery) => delivery.accept(how)
  }

  /** @returns what follows if the delivery is not settled. */
  conclude(held: HeldDelivery, verdict: Verdict): Promise<Next | undefined> | undefined {
    if (verdict.kind === 'handled') return this.#handled(held, verdict)
    if (verdict.kind === 'failed') return this.#failed(held, verdict)
    if (verdict.kind === 'lost') {
      // A delivery that the source has taken back was reported then.
      if (!held.isTakenBack) this.#events.emit('lost', held.about)
      return undefined
    }
    if (verdict.kind === 'skipped') return this.retries.skip(held)
    if (verdict.kind === 'held-back') return HELD_BACK
    const delayMs = this.#usable(held, 'retryAfterMs of the dedup store', () => verdict.retryAfterMs)
    const error = new Error('Another delivery of the message is being handled.')
    return this.retries.later(held, { delayMs, counted: false, error })
  }

  async refuse(held: HeldDelivery, error: unknown): Promise<void> {
    await this.#deadLetters.store(held, error)
  }

  /** Returns a delivery whose wait was interrupted, unless it was lost. */
  async interrupted(held: HeldDelivery, { failure }: Pick<Next, 'failure'> = {}): Promise<void> {
    if (held.isLost) return
    const { error } = failure ?? { error: held.interruption }
    await this.retries.return(held, { delayMs: 0, counted: failure !== undefined, error })
  }

  /**
   * Reports an error of the consumer's own work, and returns the delivery to the source. Otherwise the source would never deliver
   * the message again, because for the source the message is still being handled.
   */
  async broken(held: HeldDelivery, error: unknown): Promise<void> {
    held.report(error)
    await held.settle((delivery) =>
      delivery.retry({ delayMs: FALLBACK_DELAY_MS, counted: false, error, stopping: this.#stopping.aborted }),
    )
  }

  async #handled(
    held: HeldDelivery,
    { outcome, durationMs }: Extract<Verdict, { kind: 'handled' }>,
  ): Promise<undefined> {
    this.#outage.succeeded(performance.now() - durationMs)
    if (!held.isSettled) await this.#held.accept(held, this.#accept)
    if (held.isSettled) this.#held.remembered.forget(held.identity)
    // No object is made for nobody: this event occurs once for each message. Without a listener, a message that is too old
    // becomes a warning.
    if (this.#events.has('handled') || isDiagnosed('handled') || outcome === 'too-old')
      this.#events.emit('handled', { ...held.about, outcome, durationMs })
  }

  async #failed(
    held: HeldDelivery,
    { error, startedAt, isUnavailable, isConnectionLost, marks }: Extract<Verdict, { kind: 'failed' }>,
  ): Promise<Next | undefined> {
    const { work, retry, localDelayMs, localRetries } = this.#settings
    if (work.kind === 'none' && work.atMostOnce && held.isSettled) {
      await marks?.release()
      this.#events.emit('dropped', { ...held.about, error })
      return undefined
    }
    if (isPermanent(error) || (work.kind === 'local' && mayHaveCommitted(error))) {
      const isStored = await this.#deadLetters.store(held, error)
      // If the dead letter was not stored, another delivery may still handle the message.
      await (isStored ? marks?.complete() : marks?.release())
      return undefined
    }
    await marks?.release()
    if (held.isLost) return undefined
    if (isStopped(error)) return this.retries.giveBack(held, { delayMs: 0, counted: false, error })
    if (isUnavailable) {
      const { retryInMs, isNew } = this.#outage.failed(startedAt)
      if (isNew) this.#events.emit('unavailable', { source: held.source, error, retryInMs })
      if (this.#stopping.aborted) return this.retries.giveBack(held, { delayMs: 0, counted: false, error })
      return { pauseMs: retryInMs }
    }
    if (isConnectionLost && held.lostConnections < LOST_CONNECTIONS) return this.#retryLost(held, error)
    if (work.kind === 'local' && work.ports.isConflict(error)) {
      return this.retries.later(held, { delayMs: CONFLICT_DELAY_MS, counted: false, error })
    }
    if (isTimedOut(error)) held.report(error)
    if (isRetryLater(error) && error.retryAfterMs <= localDelayMs && held.localRetries < localRetries) {
      return this.#retryHere(held, error)
    }
    if (held.attempt >= retry.attempts) return void (await this.#deadLetters.store(held, error))
    const delayMs = isRetryLater(error)
      ? this.#usable(held, 'retryAfterMs of the error', () => error.retryAfterMs)
      : this.#usable(held, 'delayMs of the retry policy', () => retry.delayMs(held.attempt, Math.random))
    return this.retries.later(held, { delayMs, counted: true, error })
  }

  /** Returns the delay, or 1 s if it is wrong: the source could not keep a wrong delay, and the message would not come back. */
  #usable(held: HeldDelivery, source: string, ask: () => unknown): number {
    return usablePause(ask, {
      after: `delivery ${held.deliveries} of a message of consumer '${this.#settings.name}'`,
      source,
      insteadMs: FALLBACK_DELAY_MS,
      report: (error) => held.report(error),
    })
  }

  /** Retries uncounted after the transaction has lost its connection. Other messages go on, because the server can be reached. */
  async #retryLost(held: HeldDelivery, error: unknown): Promise<Next | undefined> {
    if (this.#stopping.aborted) return this.retries.giveBack(held, { delayMs: 0, counted: false, error })
    held.lostConnections += 1
    const retryInMs = LOST_CONNECTION_PAUSES.delayMs(held.lostConnections, Math.random)
    this.#events.emit('unavailable', { source: held.source, error, retryInMs })
    return { pauseMs: retryInMs }
  }

  /** Retries without a redelivery: the source is not informed. */
  async #retryHere(held: HeldDelivery, error: RetryLaterError): Promise<Next | undefined> {
    const { retryAfterMs: delayMs } = error
    if (this.#stopping.aborted) return this.retries.giveBack(held, { delayMs, counted: false, error })
    held.localRetries += 1
    this.#events.emit('retried', { ...held.about, error, delayMs, local: true })
    return { pauseMs: delayMs === 0 ? undefined : delayMs }
  }
}
