import { PermanentError } from '@txbox/core'
import { Deadline, GAUGES_END_MS, oneLine, within } from '@txbox/core/internal'
import type { ConsumerFigures } from './options/consumer.ts'
import type { ConsumerSettings } from './options/consumer-settings.ts'
import { ConsumerStoppedError } from './errors/errors.ts'
import { Batches } from './handle/batches.ts'
import { observeConsumer, type ConsumerGauges } from './handle/consumer-gauges.ts'
import { Handling, type Turns } from './handle/handling.ts'
import { LocalBatches } from './handle/local-batches.ts'
import { HeldDeliveries } from './receive/held-deliveries.ts'
import type { HeldDelivery } from './receive/held-delivery.ts'
import { Intake } from './receive/intake.ts'
import { Outage } from './receive/outage.ts'
import { Permits } from './receive/permits.ts'
import { Conclusion } from './settle/conclusion.ts'
import type { Next } from './settle/retries.ts'

/** The share of the stop time that is reserved for returning deliveries to the source, and its maximum. */
const RETURN_TIME = { share: 0.25, maxMs: 1000 }

/** How long a message is handled before it is reported as slow, and how often that is reported again. */
const SLOW_MS = 60_000

/** How long the source may take to close before it must disconnect, if `stop` has that much time left. */
const CLOSE_MS = 3000
/** The time for closing, and then for disconnecting, after the time limit of `stop`. */
const GRACE_MS = 50

/** A consumer from `start` to `stop`. `#deliver` tells the story of each delivery. */
export class ConsumerRun {
  readonly permits: Permits
  readonly #settings: ConsumerSettings
  readonly #stopping = new AbortController()
  readonly #held: HeldDeliveries
  readonly #turns: Turns
  readonly #conclusion: Conclusion
  readonly #intake: Intake
  /** When running handlers are given up, and when `stop` ends. */
  readonly #givesUp = new Deadline()
  readonly #ends = new Deadline()
  readonly #ended = Promise.withResolvers<void>()
  #stopped: Promise<void> | undefined
  #slowTimer: NodeJS.Timeout | undefined
  #gauges: ConsumerGauges | undefined

  constructor(settings: ConsumerSettings) {
    const { signal } = this.#stopping
    const outage = new Outage()
    const held = new HeldDeliveries(settings)
    const { batch, concurrency } = settings
    const permits = new Permits(
      concurrency,
      outage,
      () => held.wake(),
      () => held.unhandled.isBlocked,
    )
    held.unhandled.whenUnblocked = () => permits.unblocked()
    const handling = new Handling(settings, permits, signal)
    this.permits = permits
    this.#settings = settings
    this.#held = held
    this.#turns =
      batch === undefined
        ? handling
        : settings.work.kind === 'local'
          ? new LocalBatches({ permits, handling, lanes: held.lanes, stopping: signal }, settings, batch)
          : new Batches(permits, handling, settings, batch)
    this.#conclusion = new Conclusion(settings, held, outage, signal)
    this.#intake = new Intake(settings, held, permits, (delivery) => {
      const one = held.take(delivery)
      if (signal.aborted) one.interrupt(signal.reason)
      one.left = this.#deliver(one)
    })
  }

  get figures(): ConsumerFigures {
    const { all } = this.#held
    return {
      inHand: all.length,
      running: this.permits.running,
      waiting: all.filter(({ isWaiting }) => isWaiting).length,
      retrying: all.filter(({ isPausing }) => isPausing).length,
    }
  }

  /** Resolves when the consumer has stopped. */
  get ended(): Promise<void> {
    return this.#ended.promise
  }

  start(): Promise<void> {
    this.#gauges ??= observeConsumer(this.#settings, () => this.#held.size)
    this.#slowTimer ??= setInterval(() => this.#reportSlow(), SLOW_MS).unref()
    return this.#intake.start()
  }

  setPaused(isPaused: boolean): void {
    this.permits.isPaused = isPaused
    if (isPaused) this.#intake.pause()
    this.#held.wake()
  }

  /** Another call with a shorter time ends all of them earlier. */
  stop(timeoutMs: number): Promise<void> {
    this.#givesUp.within(timeoutMs - Math.min(timeoutMs * RETURN_TIME.share, RETURN_TIME.maxMs))
    this.#ends.within(timeoutMs)
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    const stopped = new ConsumerStoppedError(
      'The consumer is stopping. The delivery is returned to its source.',
    )
    const tablesEnded = this.#gauges?.endTables() ?? Promise.resolve()
    this.permits.close()
    this.#intake.stopReceiving()
    this.#stopping.abort(stopped)
    for (const held of this.#held.all) held.interrupt(stopped)
    this.#turns.stop?.()
    const isEmpty = this.#held.until(() => this.#held.size === 0)
    await this.#givesUp.waitFor(isEmpty)
    for (const { call } of this.#held.all) call?.giveUp(stopped)
    await this.#ends.waitFor(isEmpty)
    this.#givesUp.clear()
    this.#gauges?.endOwn()
    await this.#close(isEmpty)
    // A timer that the deadline outlives.
    const released = within(tablesEnded, GAUGES_END_MS, () => undefined, { ref: false })
    await this.#ends.waitFor(released, GRACE_MS)
    this.#ends.clear()
    clearInterval(this.#slowTimer)
    this.#ended.resolve()
  }

  /**
   * Closes the source within the time limit of `stop`. The deliveries that are left become `lost`, except those that a
   * transaction without an end has settled: an error reports them.
   */
  async #close(isEmpty: Promise<void>): Promise<void> {
    const { source, log } = this.#settings
    const disconnecting = new AbortController()
    const closed = this.#intake.close(disconnecting.signal)
    await within(this.#ends.waitFor(closed, GRACE_MS), CLOSE_MS, () => undefined)
    disconnecting.abort()
    let isClosed = false
    void closed.then(() => (isClosed = true))
    await within(Promise.all([closed, isEmpty]), GRACE_MS, () => undefined)
    // The source is closed, so that an extension would have no effect.
    for (const { heartbeat } of this.#held.all) heartbeat?.stop()
    const left = this.#held.all.filter(({ isTakenBack }) => !isTakenBack)
    if (isClosed && left.length === 0) return
    log.events.emit('error', { error: unsettled(source.name, isClosed, left), source: source.name })
  }

  /**
   * Handles a delivery, as often as necessary, and settles it. Where a delivery is in this function is its state. What need not
   * wait does not await. A wait rejects when the delivery is lost, when the consumer stops, and when an earlier message of its
   * key was returned to the source. The permit of a turn is released by the handling. Never rejects.
   */
  async #deliver(held: HeldDelivery): Promise<void> {
    let next: Next | undefined
    try {
      if (held.interruption !== undefined) throw held.interruption
      if (held.problem !== undefined) return await this.#conclusion.refuse(held, held.problem)
      held.refusal = this.#tooOften(held)
      if (held.refusal !== undefined && this.#settings.work.kind !== 'inbox') {
        return await this.#conclusion.refuse(held, held.refusal)
      }
      const isFirst = !this.#settings.inOrder || this.#held.lanes.enter(held)
      if (!isFirst && this.#turns.keepsKeyRuns !== true) await held.wait()
      for (;;) {
        if (held.delivery.isSuspect === true) await this.#held.waitAlone(held)
        if (!this.#turns.enter(held)) await held.wait()
        next = await this.#conclusion.conclude(held, await this.#turns.handle(held))
        if (next === undefined) return
        if (!(await this.#conclusion.retries.wait(held, next))) return
        held.beginAgain({ isCounted: next.failure !== undefined })
        next = undefined
      }
    } catch (error) {
      if (error !== undefined && error === held.interruption) await this.#conclusion.interrupted(held, next)
      else await this.#conclusion.broken(held, error)
    } finally {
      this.#held.leave(held)
    }
  }

  /** Returns why the message may have crashed its process each time, if it was delivered too often. */
  #tooOften(held: HeldDelivery): PermanentError | undefined {
    const { source, retry, log } = this.#settings
    const { countsDeliveries } = source.traits
    const isCounted = countsDeliveries === 'per-delivery' ? held.delivery.isCounted : countsDeliveries
    if (isCounted === false) log.uncounted(source.name)
    if (isCounted !== true || held.attempt <= retry.attempts) return undefined
    return new PermanentError(
      `The message was delivered ${held.attempt} times, and at most ${retry.attempts} are allowed. The last deliveries were not ` +
        'settled: their consumers may have crashed.',
    )
  }

  /** A statement that hangs, such as a COMMIT while the disk is full, shows no other sign. */
  #reportSlow(): void {
    for (const { call, about } of this.#held.all) {
      if (call === undefined || call.durationMs < SLOW_MS) continue
      this.#settings.log.events.emit('slow', { ...about, durationMs: call.durationMs })
    }
  }
}

function unsettled(source: string, isClosed: boolean, left: readonly HeldDelivery[]): Error {
  const ids = left.slice(0, 5).map(({ message }) => oneLine(message.id))
  const more = left.length > ids.length ? ` and ${left.length - ids.length} more` : ''
  const which = ids.length === 0 ? '' : ` (${ids.join(', ')}${more})`
  const what = isClosed
    ? `Work on messages of ${source} has not ended within the time limit of stop: the database may not answer.`
    : `The source ${source} did not close within the time limit of stop.`
  return new Error(
    `${what} Deliveries that it has not taken back: ${left.length}${which}. Their messages are delivered again, at the latest ` +
      'when their leases or the connection end, unless their transactions have committed.',
  )
}
