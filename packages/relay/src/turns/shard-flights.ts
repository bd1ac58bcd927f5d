import { setTimeout as pause } from 'node:timers/promises'
import {
  isTxboxError,
  type BacklogMessage,
  type ReadLimits,
  type RelayStore,
  type RetryPolicy,
} from '@txbox/core'
import type { EventListeners } from '@txbox/core/internal'
import type { CrashWatch } from './crash-watch.ts'
import { Flight, type FlightKind, type FlightTools } from './flight.ts'
import type { HeldShard } from '../leases/held-shard.ts'
import { InFlight } from './in-flight.ts'
import { GrowingPause } from './growing-pause.ts'
import type { PublisherOutage } from './publisher-outage.ts'
import { giveUp, refuse, reportRefused, suspected, type Refused } from './refusals.ts'
import type { RelayEvents } from '../relay.ts'
import { behindRefused, outboxSettlement, parkedSettlement } from './settlements.ts'
import type { SuspectLane } from './suspect-lane.ts'

/**
 * A turn goes on while its calls answer: it ends after the first interval of this length in which fewer than a twentieth
 * of its messages were answered, so after 20 intervals at the latest. Then the turn settles what has been answered, and
 * other keys of the shard go on. To settle a busy call in pieces would cost the broker its rate: RabbitMQ, 0.4 instead of
 * 0.8 of a bare client's rate with turns of 50 ms.
 */
const INTERVAL_MS = 50
const LEAST_PROGRESS = 1 / 20
/**
 * The same for a large batch, which a broker with much in flight answers later: there is no room for other messages beside
 * it.
 */
const LARGE_BATCH = 100
const LARGE_BATCH_INTERVAL_MS = 500
/** The maximum number of concurrent flights of one shard. */
const MOST_FLIGHTS = 16

/** The parts that all shards of a relay share. */
export interface WorkTools extends FlightTools {
  readonly store: RelayStore
  readonly retry: RetryPolicy
  readonly outage: PublisherOutage
  readonly lane: SuspectLane
  readonly events: EventListeners<RelayEvents>
  readonly limits: ReadLimits
}

export interface Counts {
  readonly published: number
  readonly parked: number
  readonly deadLettered: number
}

/** The calls that the flights of a shard make to the run. */
export interface FlightCallbacks {
  /** Asks for a turn of the shard, now or after a pause. */
  readonly wants: (afterMs?: number) => void
  /** Must be called when the broker answers again: all shards may go on. */
  readonly brokerIsBack: () => void
  readonly count: (counts: Counts) => void
}

/** The result of a flight within its turn. */
export interface FlightOutcome {
  readonly settled: number
  readonly isOver: boolean
  readonly hasFailed: boolean
}

/** One settlement: its database work, the events to emit after that work, and the calls that end in any case. */
interface Settling {
  readonly run: () => Promise<void>
  readonly report: () => void
  readonly close: () => void
}

/**
 * The flights of one shard: begins flights, waits at most a turn, and settles their results, in this turn or in a later
 * one.
 */
export class ShardFlights {
  readonly #held: HeldShard
  readonly #tools: WorkTools
  readonly #watch: CrashWatch
  readonly #callbacks: FlightCallbacks
  readonly #inFlight = new InFlight()
  /** Flights that have outlived their turn. */
  readonly #flights = new Set<Flight>()
  /** Settlements that the database has refused. The shard does nothing else before these settlements have succeeded. */
  #unsettled: Settling[] = []
  readonly #pause = new GrowingPause()
  /** The lease is lost. */
  #isAbandoned = false

  constructor(held: HeldShard, tools: WorkTools, watch: CrashWatch, callbacks: FlightCallbacks) {
    this.#held = held
    this.#tools = tools
    this.#watch = watch
    this.#callbacks = callbacks
  }

  /** The number of messages in flight that outlived their turn. */
  get size(): number {
    return this.#inFlight.size
  }

  get hasSuspect(): boolean {
    return [...this.#flights].some(({ kind }) => kind === 'suspect')
  }

  /** The number of messages that may be published now. */
  get room(): number {
    const { messages, bytes } = this.#tools.limits
    const isFull = this.#flights.size >= MOST_FLIGHTS || this.#inFlight.bytes >= bytes
    return isFull ? 0 : Math.max(0, messages - this.#inFlight.size)
  }

  /** The pause of this shard alone, in milliseconds, because its calls fail while calls of other shards succeed. */
  remainingMs(now: number): number {
    return this.#pause.remainingMs(now)
  }

  /** Whether neither the message nor another message of its key is in flight. */
  lets(kind: FlightKind, message: BacklogMessage): boolean {
    return this.#inFlight.size === 0 || this.#inFlight.lets(kind, message)
  }

  /**
   * Publishes a batch, waits until the end of the turn at most, and settles the results so far.
   *
   * @param blocked messages of the outbox that are parked in the same settlement, behind parked messages of their keys.
   * @returns `undefined` when the broker is unavailable: nothing was published.
   */
  async publish(
    kind: FlightKind,
    batch: readonly BacklogMessage[],
    blocked: readonly BacklogMessage[] = [],
  ): Promise<FlightOutcome | undefined> {
    const { outage, events, signal } = this.#tools
    if (batch.length === 0) {
      if (blocked.length > 0) await this.#settleOutbox({ accepted: [], refused: [], behind: blocked })
      return { settled: blocked.length, isOver: true, hasFailed: false }
    }
    await this.#watch.takeOff(kind, batch)
    // Checked again: the broker may have become unavailable while the database was read.
    if (!outage.admits(performance.now())) {
      this.#watch.landed(batch)
      return undefined
    }
    this.#held.takeOff()
    const flight = new Flight(kind, batch, this.#tools, {
      mayGoOn: () => this.#held.isTrusted && !signal.aborted,
      onLate: (error) => {
        events.emit('error', { error })
        // Other suspects need not wait: the attempt is counted.
        if (kind === 'suspect') this.#tools.lane.leave(this.#held)
      },
    })
    void flight.over.then(() => this.#held.ended())
    await withinTurn(flight, this.#intervalMs(batch.length))
    if (flight.isOver) this.#ended(flight)
    else this.#goesOn(flight)
    if (this.#isAbandoned && !flight.isOver) return { settled: 0, isOver: false, hasFailed: false }
    const settled = await this.#settleFlight(flight, blocked)
    const wasNotTried = flight.isOver && flight.calls === 0 && settled === 0
    return { settled, isOver: flight.isOver, hasFailed: flight.failure !== undefined || wasNotTried }
  }

  /**
   * Settles the results that have arrived since the last turn.
   *
   * @returns whether more parked messages may be due now: those behind settled messages.
   */
  async settleLanded(): Promise<boolean> {
    await this.#settleUnsettled()
    let mayBeDue = false
    for (const flight of this.#flights) {
      if (flight.isOver) this.#ended(flight)
      const settled = await this.#settleFlight(flight, [])
      if (settled > 0 && flight.kind !== 'outbox') mayBeDue = true
    }
    return mayBeDue
  }

  /**
   * When the relay stops: waits for all flights, and settles what they bring; once the relay is forced to stop, what has been
   * answered by then. A settlement that fails is made again while there is time.
   */
  async finish(onError: (error: unknown) => void): Promise<void> {
    const { signal } = this.#tools
    for (let pauseMs = 50; ; pauseMs = Math.min(1000, pauseMs * 2)) {
      await this.settleLanded().catch(onError)
      const flying = [...this.#flights].filter(({ isOver }) => !isOver)
      if (flying.length === 0 && (this.#unsettled.length === 0 || signal.aborted)) return
      const over = Promise.all(flying.map((flight) => flight.over))
      if (signal.aborted) await over
      else await Promise.race([flying.length > 0 ? over : pause(pauseMs), aborted(signal)])
    }
  }

  /** Must be called when the lease is lost: results of flights in progress are ignored. */
  abandon(): void {
    this.#isAbandoned = true
    for (const { close } of this.#unsettled.splice(0)) close()
    for (const flight of this.#flights) this.#letGo(flight)
    this.#callbacks.wants()
  }

  /**
   * Counts an attempt of a suspect, takes the count back, or gives the suspect up. If that fails, it is not made again:
   * nothing has been published that would have to be settled.
   */
  async settleSuspect(refused: Refused): Promise<void> {
    await this.#settleUnsettled()
    const { lease, shard } = this.#held
    try {
      await this.#tools.store.settleParked(lease, shard, parkedSettlement([], [refused]))
    } catch (error) {
      if (isUnanswered(error)) this.#held.leaving = true
      throw error
    }
    if (!refused.refusal.suspect) this.#report([], [refused], 0)
  }

  /** Keeps a flight that outlives its turn. */
  #goesOn(flight: Flight): void {
    for (const message of flight.batch) this.#inFlight.add(flight.kind, message)
    this.#flights.add(flight)
    // Results are gathered for as long as a turn waits.
    flight.onNews = () => {
      const intervalMs = this.#intervalMs(flight.batch.length - flight.answered)
      this.#callbacks.wants(flight.isOver ? 0 : intervalMs)
    }
    if (this.#isAbandoned) this.#letGo(flight)
  }

  #intervalMs(messages: number): number {
    const isLarge = messages >= LARGE_BATCH && messages * 2 >= this.#tools.limits.messages
    return isLarge ? LARGE_BATCH_INTERVAL_MS : INTERVAL_MS
  }

  /** Abandons a flight: its results are not settled, but the shard is not taken again before the flight has ended. */
  #letGo(flight: Flight): void {
    flight.onNews = () => {}
    void flight.over.then(() => {
      this.#landed(flight)
      this.#callbacks.wants()
    })
  }

  /** @returns the number of messages that were settled. */
  async #settleFlight(flight: Flight, blocked: readonly BacklogMessage[]): Promise<number> {
    const { accepted, rejected, unreadable } = flight.land()
    const refused = [
      ...unreadable.map((message) => giveUp(message, message.undecodable!)),
      ...rejected.map(({ message, result }) => refuse(message, result, this.#tools.retry)),
    ]
    const isTried = accepted.length + refused.length > 0
    if (flight.kind === 'suspect' && flight.isOver && !isTried) return this.#notTried(flight)
    const outlives = this.#flights.has(flight)
    const { isOver } = flight
    const close = (): void => {
      for (const message of outlives ? accepted : []) this.#inFlight.remove(flight.kind, message)
      for (const { message } of outlives ? refused : []) this.#inFlight.remove(flight.kind, message)
      if (isOver) this.#landed(flight)
    }
    if (accepted.length > 0 && !isOver) this.#brokerAnswers()
    if (flight.kind !== 'outbox') {
      const report = (): void => this.#report(accepted, refused, 0, flight)
      if (isTried) await this.#settleParked(accepted, refused, { report, close })
      else close()
      return accepted.length + refused.length
    }
    // If a flight outlives its turn, the next read finds the messages that have to wait.
    const behind = outlives ? blocked : [...blocked, ...behindRefused(flight.batch, accepted, refused)]
    if (isTried || behind.length > 0) await this.#settleOutbox({ accepted, refused, behind, flight, close })
    else close()
    return accepted.length + refused.length + behind.length
  }

  /** A suspect without a result: unless the call hung, or was cut off, the relay lives, and the attempt does not count. */
  async #notTried(flight: Flight): Promise<number> {
    const close = (): void => this.#landed(flight)
    const [message] = flight.batch
    if (flight.isLate || this.#tools.signal.aborted) close()
    else await this.#settleParked([], [suspected(message!, message!.attempts)], { close })
    return 0
  }

  async #settleOutbox(what: {
    readonly accepted: readonly BacklogMessage[]
    readonly refused: readonly Refused[]
    readonly behind: readonly BacklogMessage[]
    readonly flight?: Flight
    readonly close?: () => void
  }): Promise<void> {
    const { accepted, refused, behind, flight, close = () => {} } = what
    const { lease, shard } = this.#held
    const settlement = outboxSettlement(accepted, refused, behind)
    const run = (): Promise<void> => this.#tools.store.settle(lease, shard, settlement)
    await this.#settle({ run, close, report: () => this.#report(accepted, refused, behind.length, flight) })
  }

  async #settleParked(
    accepted: readonly BacklogMessage[],
    refused: readonly Refused[],
    { report = () => {}, close = () => {} }: Partial<Settling>,
  ): Promise<void> {
    const { lease, shard } = this.#held
    const settlement = parkedSettlement(accepted, refused)
    const run = (): Promise<void> => this.#tools.store.settleParked(lease, shard, settlement)
    await this.#settle({ run, report, close })
  }

  async #settle(settling: Settling): Promise<void> {
    this.#unsettled.push(settling)
    await this.#settleUnsettled()
  }

  /**
   * A refused settlement is kept and tried again: publishing its messages again would not help. A settlement without an
   * answer may have happened, or may still happen: the shard is given up, so that the settlement is over when the next
   * term begins.
   */
  async #settleUnsettled(): Promise<void> {
    for (let next = this.#unsettled[0]; next !== undefined; next = this.#unsettled[0]) {
      try {
        await next.run()
      } catch (error) {
        const isLost = isTxboxError(error) && error.code === 'TXBOX_LEASE_LOST'
        if (isUnanswered(error)) this.#held.leaving = true
        if (isUnanswered(error) || isLost) for (const { close } of this.#unsettled.splice(0)) close()
        throw error
      }
      // The lease may have been lost meanwhile, and the settlement closed.
      if (this.#unsettled[0] === next) this.#unsettled.shift()
      next.report()
      next.close()
    }
  }

  /** Emits the events of settled messages and counts them. */
  #report(
    accepted: readonly BacklogMessage[],
    refused: readonly Refused[],
    behind: number,
    flight?: Flight,
  ): void {
    const { events } = this.#tools
    const deadLettered = reportRefused(refused, events)
    if (accepted.length > 0) {
      const durationMs = performance.now() - (flight?.begunAt ?? performance.now())
      events.emit('published', { shard: this.#held.shard, count: accepted.length, durationMs })
    }
    this.#callbacks.count({
      published: accepted.length,
      parked: refused.length - deadLettered + behind,
      deadLettered,
    })
  }

  /** Updates the state of the broker when the calls of a flight have ended. */
  #ended(flight: Flight): void {
    const { outage, events, signal } = this.#tools
    if (flight.failure === undefined) {
      if (flight.calls === 0) return outage.giveBack()
      this.#pause.succeeded()
      return this.#brokerAnswers()
    }
    const { error } = flight.failure
    if (signal.aborted) return this.#held.cutOff()
    const now = performance.now()
    if (flight.isLate) return void this.#pause.failed(now)
    const ownMs = outage.isOwnFailure(this.#held) ? this.#pause.failed(now) : 0
    const outageMs = outage.failed(flight.begunAt, now)
    if (outageMs === undefined && ownMs === 0) return
    events.emit('unavailable', { error, retryInMs: Math.max(outageMs ?? 0, ownMs) })
  }

  #brokerAnswers(): void {
    if (this.#tools.outage.succeeded()) this.#callbacks.brokerIsBack()
  }

  #landed(flight: Flight): void {
    if (flight.hasLanded) return
    flight.hasLanded = true
    if (this.#flights.delete(flight)) {
      for (const message of flight.batch) this.#inFlight.remove(flight.kind, message)
    }
    this.#watch.landed(flight.batch)
    this.#held.landed()
    if (flight.kind === 'suspect') this.#tools.lane.leave(this.#held)
  }
}

/** The database gave no answer: what was asked for may have happened, or may still. */
function isUnanswered(error: unknown): boolean {
  return isTxboxError(error) && error.code === 'TXBOX_DATABASE_UNAVAILABLE'
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

/** Waits for the end of a flight, as long as its calls make progress. */
async function withinTurn(flight: Flight, intervalMs: number): Promise<void> {
  const least = flight.batch.length * LEAST_PROGRESS
  for (let before = -least; !flight.isOver && flight.answered - before >= least;) {
    before = flight.answered
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, intervalMs)))
    await Promise.race([flight.over, late])
    clearTimeout(timer)
  }
}
