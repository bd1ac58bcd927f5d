import { PermanentError, type Delivery } from '@txbox/core'
import { BatchDispatcher } from './batch-dispatcher.ts'
import { Conclusion } from './conclusion.ts'
import type { ConsumerFigures } from './consumer.ts'
import type { ConsumerSettings } from './consumer-settings.ts'
import type { DeliverySlot } from './delivery-slot.ts'
import { SingleDispatcher, type Dispatcher } from './dispatcher.ts'
import { ConsumerStoppedError } from './errors.ts'
import { Gate } from './gate.ts'
import { Hand } from './hand.ts'
import { Handling } from './handling.ts'
import { Intake } from './intake.ts'
import { Outage } from './outage.ts'

/** The part of the time to stop that is left for what goes back at the end, and the most of it. */
const GRACE = { share: 0.25, maxMs: 1000 }

/** How long disconnecting may take: a source that is being opened may take longer, and is then closed later. */
const CLOSE_MS = 3000

/**
 * The way of a delivery: the intake receives it, the hand keeps it until the turn of its key, the dispatcher calls the
 * handling, and the conclusion settles it.
 */
export class ConsumerRun {
  readonly dispatcher: Dispatcher
  readonly #settings: ConsumerSettings
  readonly #stopping = new AbortController()
  readonly #hand: Hand
  readonly #conclusion: Conclusion
  readonly #gate: Gate
  readonly #intake: Intake

  constructor(settings: ConsumerSettings) {
    this.#settings = settings
    const outage = new Outage()
    this.#gate = new Gate(outage, () => this.dispatcher.changed())
    this.#hand = new Hand(settings, (slot) => this.#ready(slot))
    this.#conclusion = new Conclusion(settings, this.#hand, outage, this.#stopping.signal)
    const handling = new Handling(
      settings,
      this.#hand,
      (slot, verdict) => this.#conclusion.conclude(slot, verdict),
      this.#stopping.signal,
    )
    const idle = (): void => this.#hand.wake()
    this.dispatcher =
      settings.batch === undefined
        ? new SingleDispatcher(handling, this.#gate, settings.concurrency, idle)
        : new BatchDispatcher(handling, this.#gate, { ...settings, ...settings.batch }, idle)
    this.#intake = new Intake(settings, this.#hand, {
      received: (delivery) => this.#received(delivery),
      isPaused: () => this.#gate.isPaused,
      isIdle: () => this.dispatcher.isIdle,
    })
  }

  get figures(): ConsumerFigures {
    const { size: inHand } = this.#hand
    const { running } = this.dispatcher
    return { inHand, running, waiting: this.#hand.count('waiting'), retrying: this.#hand.count('retrying') }
  }

  start(): Promise<void> {
    return this.#intake.start()
  }

  setPaused(isPaused: boolean): void {
    this.#gate.isPaused = isPaused
    this.#hand.wake()
  }

  async stop(timeoutMs: number): Promise<void> {
    const graceMs = Math.min(timeoutMs * GRACE.share, GRACE.maxMs)
    this.#gate.close()
    this.#intake.stopReceiving()
    this.#stopping.abort(stopped())
    for (const slot of this.#hand.slots) {
      if (slot.state === 'running') continue
      const counted = slot.failure !== undefined
      void this.#conclusion.giveBack(slot, { delayMs: 0, counted, error: slot.failure?.error ?? stopped() })
    }
    await this.#emptyWithin(timeoutMs - graceMs)
    for (const { call } of this.#hand.slots) call?.giveUp(stopped())
    await this.#emptyWithin(graceMs)
    await within(CLOSE_MS, this.#intake.close())
  }

  #received(delivery: Delivery): void {
    const { source, retry } = this.#settings
    const slot = this.#hand.take(delivery)
    if (slot.state === 'gone') return
    if (this.#stopping.signal.aborted) {
      void this.#conclusion.giveBack(slot, { delayMs: 0, counted: false, error: stopped() })
      return
    }
    const hopeless =
      delivery.undecodable ??
      (source.traits.countsDeliveries && delivery.deliveries > retry.attempts
        ? unsettled(delivery.deliveries, retry.attempts)
        : undefined)
    if (hopeless === undefined) return this.#hand.queue(slot)
    slot.state = 'running'
    void this.#conclusion.bury(slot, hopeless)
  }

  /** The turn of the delivery has come. */
  #ready(slot: DeliverySlot): void {
    if (slot.delivery.isSuspect === true) void this.#readyAlone(slot)
    else this.dispatcher.ready(slot)
  }

  /** A message that may end the process waits until nothing else can run. */
  async #readyAlone(slot: DeliverySlot): Promise<void> {
    await this.#hand.until(() => slot.state === 'gone' || this.#hand.isAlone(slot))
    if (slot.state === 'waiting') this.dispatcher.ready(slot)
  }

  async #emptyWithin(ms: number): Promise<void> {
    await within(
      ms,
      this.#hand.until(() => this.#hand.size === 0),
    )
  }
}

/** Waits for `work`, but no longer than `ms`. */
async function within(ms: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)))
  await Promise.race([work, late])
  clearTimeout(timer)
}

function stopped(): ConsumerStoppedError {
  return new ConsumerStoppedError('The consumer stops. The delivery goes back to its source.')
}

/** The message may have ended the process each time. */
function unsettled(deliveries: number, attempts: number): PermanentError {
  return new PermanentError(
    `The message was delivered ${deliveries} times, and at most ${attempts} are allowed. The last deliveries were not settled: ` +
      'their consumers may have crashed.',
  )
}
