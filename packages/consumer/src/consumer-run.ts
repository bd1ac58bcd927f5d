import { PermanentError, type Delivery } from '@txbox/core'
import { Deadline, within } from '@txbox/core/internal'
import { BatchDispatcher } from './handle/batch-dispatcher.ts'
import { Conclusion } from './settle/conclusion.ts'
import type { ConsumerFigures } from './options/consumer.ts'
import type { ConsumerSettings } from './options/consumer-settings.ts'
import type { DeliverySlot } from './receive/delivery-slot.ts'
import { SingleDispatcher, type Dispatcher } from './handle/dispatcher.ts'
import { ConsumerStoppedError } from './errors/errors.ts'
import { Gate } from './receive/gate.ts'
import { HeldDeliveries } from './receive/held-deliveries.ts'
import { Handling } from './handle/handling.ts'
import { Intake } from './receive/intake.ts'
import { Outage } from './receive/outage.ts'

/** The share of the stop time that is reserved for returning deliveries to the source, and its maximum. */
const RETURN_TIME = { share: 0.25, maxMs: 1000 }

/** How long a message is handled before it is reported as slow, and how often that is reported again. */
const SLOW_MS = 60_000

/** How long the source may take to close before it must disconnect, if `stop` has that much time left. */
const CLOSE_MS = 3000
/** The time for closing, and then for disconnecting, after the time limit of `stop`. */
const GRACE_MS = 50

/**
 * The path of a delivery: the intake receives it, the held deliveries keep it until it is the first of its key, the
 * dispatcher passes it to the handling, which calls the handler, and the conclusion settles it.
 */
export class ConsumerRun {
  readonly dispatcher: Dispatcher
  readonly #settings: ConsumerSettings
  readonly #stopping = new AbortController()
  readonly #held: HeldDeliveries
  readonly #conclusion: Conclusion
  readonly #gate: Gate
  readonly #intake: Intake
  /** When running handlers are given up, and when `stop` ends. */
  readonly #givesUp = new Deadline()
  readonly #ends = new Deadline()
  #stopped: Promise<void> | undefined
  #slowTimer: NodeJS.Timeout | undefined

  constructor(settings: ConsumerSettings) {
    this.#settings = settings
    const outage = new Outage()
    this.#gate = new Gate(outage, () => this.dispatcher.changed())
    this.#held = new HeldDeliveries(settings, (slot) => this.#ready(slot))
    this.#conclusion = new Conclusion(settings, this.#held, outage, this.#stopping.signal)
    const handling = new Handling(
      settings,
      this.#held,
      (slot, verdict) => this.#conclusion.conclude(slot, verdict),
      this.#stopping.signal,
    )
    const idle = (): void => this.#held.wake()
    this.dispatcher =
      settings.batch === undefined
        ? new SingleDispatcher(handling, this.#gate, settings.concurrency, idle)
        : new BatchDispatcher(handling, this.#gate, { ...settings, ...settings.batch }, idle)
    this.#intake = new Intake(settings, this.#held, {
      received: (delivery) => this.#received(delivery),
      isPaused: () => this.#gate.isPaused,
      isIdle: () => this.dispatcher.isIdle,
    })
  }

  get figures(): ConsumerFigures {
    const { size: inHand } = this.#held
    const { running } = this.dispatcher
    return { inHand, running, waiting: this.#held.count('waiting'), retrying: this.#held.count('retrying') }
  }

  start(): Promise<void> {
    this.#slowTimer ??= setInterval(() => this.#reportSlow(), SLOW_MS).unref()
    return this.#intake.start()
  }

  setPaused(isPaused: boolean): void {
    this.#gate.isPaused = isPaused
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
    this.#gate.close()
    this.#intake.stopReceiving()
    this.#stopping.abort(stopped())
    for (const slot of this.#held.slots) {
      if (slot.state === 'running') continue
      const counted = slot.failure !== undefined
      void this.#conclusion.giveBack(slot, { delayMs: 0, counted, error: slot.failure?.error ?? stopped() })
    }
    const isEmpty = this.#held.until(() => this.#held.size === 0)
    await this.#givesUp.waitFor(isEmpty)
    for (const { call } of this.#held.slots) call?.giveUp(stopped())
    await this.#ends.waitFor(isEmpty)
    this.#givesUp.clear()
    await this.#close(isEmpty)
    this.#ends.clear()
    clearInterval(this.#slowTimer)
  }

  /** Closes the source within the time limit of `stop`. The deliveries that are left become `lost`. */
  async #close(isEmpty: Promise<void>): Promise<void> {
    const { source, log } = this.#settings
    const disconnecting = new AbortController()
    const closed = this.#intake.close(disconnecting.signal)
    await within(this.#ends.waitFor(closed, GRACE_MS), CLOSE_MS, () => undefined)
    disconnecting.abort()
    let isClosed = false
    void closed.then(() => (isClosed = true))
    await within(Promise.all([closed, isEmpty]), GRACE_MS, () => undefined)
    if (!isClosed)
      log.events.emit('error', { error: unclosed(source.name, this.#held.size), source: source.name })
  }

  #received(delivery: Delivery): void {
    const { source, retry } = this.#settings
    const slot = this.#held.take(delivery)
    if (slot.state === 'gone') return
    if (this.#stopping.signal.aborted) {
      void this.#conclusion.giveBack(slot, { delayMs: 0, counted: false, error: stopped() })
      return
    }
    const unprocessable =
      delivery.undecodable ??
      (source.traits.countsDeliveries && delivery.deliveries > retry.attempts
        ? tooManyDeliveries(delivery.deliveries, retry.attempts)
        : undefined)
    if (unprocessable === undefined) return this.#held.queue(slot)
    slot.state = 'running'
    void this.#conclusion.refuse(slot, unprocessable)
  }

  /** A statement that hangs, such as a COMMIT while the disk is full, shows no other sign. */
  #reportSlow(): void {
    for (const { call, about } of this.#held.slots) {
      if (call === undefined || call.durationMs < SLOW_MS) continue
      this.#settings.log.events.emit('slow', { ...about, durationMs: call.durationMs })
    }
  }

  /** Called when the delivery is the first of its key, and its next attempt is due. */
  #ready(slot: DeliverySlot): void {
    if (slot.delivery.isSuspect === true) void this.#readyAlone(slot)
    else this.dispatcher.ready(slot)
  }

  /** Lets a message that may crash the process wait until no other delivery can run. */
  async #readyAlone(slot: DeliverySlot): Promise<void> {
    await this.#held.until(() => slot.state === 'gone' || this.#held.isAlone(slot))
    if (slot.state === 'waiting') this.dispatcher.ready(slot)
  }
}

function unclosed(source: string, left: number): Error {
  return new Error(
    `The source ${source} did not close within the time limit of stop. Deliveries that it has not taken back: ${left}. Their ` +
      'messages are delivered again, at the latest when their leases or the connection end.',
  )
}

function stopped(): ConsumerStoppedError {
  return new ConsumerStoppedError('The consumer is stopping. The delivery is returned to its source.')
}

/** Creates the error of a message whose deliveries were not settled: the message may have crashed the process each time. */
function tooManyDeliveries(deliveries: number, attempts: number): PermanentError {
  return new PermanentError(
    `The message was delivered ${deliveries} times, and at most ${attempts} are allowed. The last deliveries were not settled: ` +
      'their consumers may have crashed.',
  )
}
