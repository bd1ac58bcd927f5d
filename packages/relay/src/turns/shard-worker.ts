import type { ReadLimits } from '@txbox/core'
import { SHARDS } from '@txbox/core/internal'
import { CrashWatch } from './crash-watch.ts'
import type { EmptyShards } from '../polling/empty-shards.ts'
import type { HeldShard } from '../leases/held-shard.ts'
import { giveUpSuspect, suspected } from './refusals.ts'
import { ShardFlights, type FlightCallbacks, type WorkTools } from './shard-flights.ts'

/** From this batch size on, the first batches of different shards have different sizes. */
const LARGE_BATCH = 500

export interface WorkerSettings {
  readonly empty: EmptyShards
  /**
   * Whether messages arrive so steadily that the poller waits longer, so that several messages share a look, a read and
   * a settlement.
   */
  readonly gathers: () => boolean
  /** The worker looks for parked messages at least this often, in ms, however much there is in the outbox. */
  readonly lookAfterMs: number
  /** How often the worker looks for keys whose head was deleted by hand, in milliseconds. */
  readonly healAfterMs: number
}

/**
 * Does the work of one shard, a turn at a time: settles the results of earlier calls, tries a suspect, then parked
 * messages that are due, then the outbox. No transaction is open while the publisher works.
 */
export class ShardWorker {
  readonly #held: HeldShard
  readonly #tools: WorkTools
  readonly #settings: WorkerSettings
  readonly #callbacks: FlightCallbacks
  readonly #watch: CrashWatch
  readonly #flights: ShardFlights
  /** Whether the outbox has been read. */
  #isBegun = false
  /** Whether parked messages of the shard are due, as far as is known. */
  #isDue = true
  #lookedAt = -Infinity
  #healedAt = -Infinity
  readonly #laneIsFree = (): void => this.#callbacks.wants()

  constructor(held: HeldShard, tools: WorkTools, settings: WorkerSettings, callbacks: FlightCallbacks) {
    this.#held = held
    this.#tools = tools
    this.#settings = settings
    this.#callbacks = callbacks
    this.#watch = new CrashWatch(held, tools.store, tools.limits)
    this.#flights = new ShardFlights(held, tools, this.#watch, callbacks)
  }

  /** Must be called when the database has been asked whether parked messages are due. */
  sawDue(due: boolean, askedAt: number): void {
    if (due) this.#isDue = true
    else this.#lookedAt = Math.max(this.#lookedAt, askedAt)
  }

  /** Forgets what was seen of the server, because the server is another one or has gone back in time. */
  forget(): void {
    this.#isDue = true
    this.#lookedAt = -Infinity
    this.#healedAt = -Infinity
  }

  /**
   * Does one turn: at most one batch.
   *
   * @returns whether there may be more to do at once.
   * @throws {LeaseLostError} when the shard was taken over: accepted messages will be published again, with the same ids.
   */
  async turn(): Promise<boolean> {
    if (await this.#flights.settleLanded()) this.#isDue = true
    if (this.#held.leaving || this.#mustWait()) return false
    const startedAt = performance.now()
    await this.#healKeys(startedAt)
    await this.#watch.begin()
    if (this.#watch.hasSuspects) await this.#trySuspect()
    // Parked messages get their turn also while the outbox is never empty.
    const isTime = startedAt - this.#lookedAt >= this.#settings.lookAfterMs
    if ((this.#isDue || isTime) && (await this.#parkedTurn(startedAt)) === 'failed') return !this.#mustWait()
    const outcome = await this.#outboxTurn()
    await this.#watch.end()
    if (outcome === 'failed') return !this.#mustWait()
    if (outcome !== 'empty') return outcome === 'more' || (outcome === 'done' && this.#isDue)
    if (this.#lookedAt !== startedAt) await this.#parkedTurn(startedAt)
    const isIdle = !this.#isDue && this.#flights.size === 0 && !this.#watch.hasSuspects
    if (isIdle) this.#settings.empty.seen([this.#held.shard], startedAt)
    return this.#isDue
  }

  /** Waits for the calls in flight, and settles what they bring. */
  async finish(onError: (error: unknown) => void): Promise<void> {
    await this.#flights.finish(onError)
  }

  /** Must be called when the lease is lost: results of calls in flight are ignored. */
  abandon(): void {
    this.#tools.lane.forget(this.#laneIsFree)
    this.#flights.abandon()
  }

  /** Is the broker unavailable, or does this shard pause by itself? Then another turn follows after the pause. */
  #mustWait(): boolean {
    const now = performance.now()
    const waitMs = Math.max(this.#flights.remainingMs(now), this.#tools.outage.waitMs(now))
    if (waitMs > 0) this.#callbacks.wants(waitMs)
    return waitMs > 0
  }

  /** Releases keys whose head, the message that the others of the key wait for, was deleted by hand. */
  async #healKeys(now: number): Promise<void> {
    if (now - this.#healedAt < this.#settings.healAfterMs) return
    this.#healedAt = now
    if ((await this.#tools.store.healKeys(this.#held.lease, this.#held.shard)) > 0) this.#isDue = true
  }

  async #outboxTurn(): Promise<'empty' | 'failed' | 'more' | 'done'> {
    const { store, limits } = this.#tools
    const { room } = this.#flights
    if (room === 0) return 'done'
    const first = this.#isBegun ? limits : firstLimits(limits, this.#held.shard)
    this.#isBegun = true
    const asked = this.#withInFlight(first)
    const batch = await store.read(this.#held.shard, asked)
    this.#watch.sawOutbox(batch)
    if (batch.length === 0) return 'empty'

    const here = batch.filter((message) => this.#flights.lets('outbox', message))
    const blocked = here.filter((message) => message.blocked)
    const free = blocked.length === 0 ? here : here.filter((message) => !message.blocked)
    const outcome = await this.#flights.publish('outbox', free.slice(0, room), blocked)
    if (outcome === undefined || outcome.hasFailed) return 'failed'
    // The end of the backlog has been reached: under a steady load, the next messages gather until the poller looks.
    if (batch.length < asked.messages)
      return outcome.settled > 0 && !this.#settings.gathers() ? 'more' : 'done'
    return outcome.settled > 0 || free.length > 0 ? 'more' : 'done'
  }

  /** @returns `'failed'` when the publisher was not called, or threw. */
  async #parkedTurn(now: number): Promise<'failed' | 'done'> {
    const { store, limits } = this.#tools
    const wasDue = this.#isDue
    this.#lookedAt = now
    this.#isDue = false
    const { room } = this.#flights
    if (room === 0) return 'done'
    const batch = await store.readDue(this.#held.lease, this.#held.shard, this.#withInFlight(limits))
    if (batch.length === 0) {
      this.#watch.parkedIsThrough()
      // Then a suspect may be due: one that waited behind another message of its key.
      if (wasDue) this.#watch.hasSuspects = true
    }
    const free = batch.filter((message) => this.#flights.lets('parked', message)).slice(0, room)
    if (free.length === 0) return 'done'
    const outcome = await this.#flights.publish('parked', free)
    if (outcome === undefined || outcome.hasFailed) {
      this.#isDue = true
      return 'failed'
    }
    if (outcome.isOver) this.#watch.parkedIsThrough()
    this.#isDue = outcome.settled > 0
    return 'done'
  }

  /** Tries one suspect, if no other is being tried in this process. It is counted before it is published. */
  async #trySuspect(): Promise<void> {
    const { store, lane, limits, retry, outage } = this.#tools
    if (this.#flights.hasSuspect || !lane.enter(this.#held, this.#laneIsFree)) return
    let isInFlight = false
    try {
      const message = await store.readSuspect(this.#held.shard, limits)
      this.#watch.hasSuspects = message !== undefined
      if (message === undefined) return
      // Afterwards there may be another suspect.
      this.#callbacks.wants()
      if (message.attempts >= retry.attempts) return await this.#flights.settleSuspect(giveUpSuspect(message))
      if (outage.waitMs(performance.now()) > 0) return
      await this.#flights.settleSuspect(suspected(message, message.attempts + 1))
      isInFlight = true
      const outcome = await this.#flights.publish('suspect', [message])
      if (outcome !== undefined) return
      isInFlight = false
      await this.#flights.settleSuspect(suspected(message, message.attempts))
    } finally {
      if (!isInFlight) lane.leave(this.#held)
    }
  }

  /** Adds the number of messages in flight to the limit: they are still in the tables, and are read again. */
  #withInFlight({ messages, bytes }: ReadLimits): ReadLimits {
    return this.#flights.size === 0 ? { messages, bytes } : { messages: messages + this.#flights.size, bytes }
  }
}

/**
 * A publisher that keeps the order of a key has less and less to do toward the end of a batch. Shards that begin at the
 * same time therefore begin with batches of different sizes; otherwise all their batches would also end at the same time.
 */
function firstLimits({ messages, bytes }: ReadLimits, shard: number): ReadLimits {
  if (messages < LARGE_BATCH) return { messages, bytes }
  return { messages: Math.ceil((messages / 2) * (1 + (shard + 1) / SHARDS)), bytes }
}
