import type { ReadLimits } from '@txbox/core/ports'
import { pause, unlessAborted, type HeldShard } from '@txbox/core/internal'
import { CrashWatch } from './crash-watch.ts'
import type { InFlightBatch } from './in-flight-batch.ts'
import { giveUpSuspect, suspected } from './refusals.ts'
import { ShardCalls } from './shard-calls.ts'
import { ShardSettler } from './shard-settler.ts'
import type { TurnTools } from './turn-tools.ts'

/**
 * Does the work of one shard, a turn at a time: settles the results of earlier calls, tries a suspect, then parked
 * messages that are due, then the outbox. No transaction is open while the publisher works.
 */
export class ShardTurns {
  readonly #held: HeldShard
  readonly #tools: TurnTools
  readonly #watch: CrashWatch
  readonly #calls: ShardCalls
  readonly #settler: ShardSettler
  /** Whether parked messages of the shard are due, as far as is known. */
  #isDue = true
  #lookedAt = -Infinity
  #healedAt = -Infinity
  readonly #suspectLaneIsFree = (): void => this.#tools.lanes.add(this.#held)

  constructor(held: HeldShard, tools: TurnTools) {
    this.#held = held
    this.#tools = tools
    this.#watch = new CrashWatch(held, tools.store, tools.limits)
    this.#calls = new ShardCalls(held, tools, this.#watch)
    this.#settler = new ShardSettler(held, tools, this.#calls)
    if (held.lease.crashes > 0) tools.suspectLane.calm.begin()
  }

  /** Must be called when the database has been asked whether parked messages are due. */
  sawDue(due: boolean, askedAt: number): void {
    if (due) this.#isDue = true
    else this.#lookedAt = Math.max(this.#lookedAt, askedAt)
  }

  /** Whether the next turn looks for keys whose head was deleted by hand. */
  mustHeal(now: number): boolean {
    return now - this.#healedAt >= this.#tools.healAfterMs
  }

  /**
   * Discards everything that is remembered about the server, because it is another server or its data has gone back in
   * time.
   */
  forget(): void {
    this.#isDue = true
    this.#lookedAt = -Infinity
    this.#healedAt = -Infinity
  }

  /**
   * Does one turn: at most one batch.
   *
   * @returns whether there may be more messages to publish at once.
   * @throws {LeaseLostError} when the shard was taken over: accepted messages will be published again, with the same
   *   ids.
   */
  async turn(): Promise<boolean> {
    if (await this.#settler.settleEarlier()) this.#isDue = true
    if (this.#held.isLeaving || this.#mustWait()) return false
    const startedAt = performance.now()
    await this.#healKeys(startedAt)
    await this.#watch.begin()
    if (this.#watch.hasSuspects) await this.#trySuspect()
    // Parked messages must get a turn even if the outbox is never empty.
    const isTime = startedAt - this.#lookedAt >= this.#tools.lookAfterMs
    if ((this.#isDue || isTime) && (await this.#parkedTurn(startedAt)) === 'failed') return !this.#mustWait()
    const outcome = await this.#outboxTurn()
    await this.#watch.end()
    if (outcome === 'failed') return !this.#mustWait()
    if (outcome !== 'empty') return outcome === 'more' || (outcome === 'done' && this.#isDue)
    if (this.#lookedAt !== startedAt) await this.#parkedTurn(startedAt)
    const isIdle = !this.#isDue && this.#calls.size === 0 && !this.#watch.hasSuspects
    if (isIdle) this.#tools.empty.seen([this.#held.shard], startedAt)
    return this.#isDue
  }

  /**
   * Waits for all calls and settles their results, when the relay stops. Once the relay is forced to stop, settles only
   * the results so far. A settlement that fails is repeated while there is time.
   */
  async finish(onError: (error: unknown) => void): Promise<void> {
    const { signal } = this.#tools
    for (let pauseMs = 50; ; pauseMs = Math.min(1000, pauseMs * 2)) {
      await this.#settler.settleEarlier().catch(onError)
      const calling = this.#calls.outliving.filter(({ hasEnded }) => !hasEnded)
      if (calling.length === 0 && (!this.#settler.hasUnsettled || signal.aborted)) return
      const ended = Promise.all(calling.map((batch) => batch.ended))
      if (signal.aborted) await ended
      else if (calling.length === 0) await pause(pauseMs, signal)
      else await unlessAborted(ended, signal).catch(() => undefined)
    }
  }

  /**
   * Must be called when the lease is lost: results of calls in flight are ignored. Resolves when the calls have ended.
   */
  async abandon(): Promise<void> {
    this.#tools.suspectLane.forget(this.#suspectLaneIsFree)
    this.#settler.abandon()
    await this.#calls.abandon()
  }

  /** Whether the broker is unavailable, or this shard pauses by itself. Then another turn follows after the pause. */
  #mustWait(): boolean {
    const now = performance.now()
    const waitMs = Math.max(this.#calls.remainingMs(now), this.#tools.outage.waitMs(now, this.#held))
    if (waitMs > 0) this.#tools.lanes.add(this.#held, waitMs)
    return waitMs > 0
  }

  /** Releases keys whose head, the message that the others of the key wait for, was deleted by hand. */
  async #healKeys(now: number): Promise<void> {
    if (!this.mustHeal(now)) return
    this.#healedAt = now
    if ((await this.#tools.store.healKeys(this.#held.lease, this.#held.shard)) > 0) this.#isDue = true
  }

  async #outboxTurn(): Promise<'empty' | 'failed' | 'more' | 'done'> {
    const { store, limits, poller } = this.#tools
    const { room } = this.#calls
    if (room === 0) return 'done'
    const asked = this.#withInFlight(limits)
    const read = await store.read(this.#held.shard, asked)
    this.#watch.sawOutbox(read)
    if (read.length === 0) return 'empty'

    const here = read.filter((message) => this.#calls.mayPublish('outbox', message))
    const blocked = here.filter((message) => message.blocked)
    const free = (blocked.length === 0 ? here : here.filter((message) => !message.blocked)).slice(0, room)
    let settled = blocked.length
    if (free.length > 0) {
      const batch = await this.#calls.publish('outbox', free)
      if (batch === undefined) return 'failed'
      settled = await this.#settler.settle(batch, blocked)
      if (hasFailed(batch, settled)) return 'failed'
    } else if (blocked.length > 0) await this.#settler.park(blocked)

    if (settled === 0 && free.length === 0) return 'done'
    if (read.length >= asked.messages) return 'more'
    // The end of the backlog has been reached: under a steady load, the next messages gather until the next poll.
    return settled > 0 && !poller.gathers ? 'more' : 'done'
  }

  /** @returns `'failed'` when the publisher was not called, or threw. */
  async #parkedTurn(now: number): Promise<'failed' | 'done'> {
    const { store, limits } = this.#tools
    const wasDue = this.#isDue
    this.#lookedAt = now
    this.#isDue = false
    const { room } = this.#calls
    if (room === 0) return 'done'
    const read = await store.readDue(this.#held.lease, this.#held.shard, this.#withInFlight(limits))
    if (read.length === 0) {
      this.#watch.triedParked()
      // A suspect that waited behind another message of its key may be due now.
      if (wasDue) this.#watch.sawSuspect(true)
    }
    const free = read.filter((message) => this.#calls.mayPublish('parked', message)).slice(0, room)
    if (free.length === 0) return 'done'
    const batch = await this.#calls.publish('parked', free)
    const settled = batch === undefined ? 0 : await this.#settler.settle(batch)
    if (batch === undefined || hasFailed(batch, settled)) {
      this.#isDue = true
      return 'failed'
    }
    if (batch.hasEnded) this.#watch.triedParked()
    this.#isDue = settled > 0
    return 'done'
  }

  /**
   * Tries one suspect, unless another suspect is being tried in this process. The attempt is counted before it begins. A
   * suspect that has been tried before gives way to all others first.
   */
  async #trySuspect(): Promise<void> {
    const { store, lanes, suspectLane, limits, retry, outage } = this.#tools
    if (this.#calls.hasSuspect || !suspectLane.enter(this.#held, this.#suspectLaneIsFree)) return
    let isInFlight = false
    try {
      const message = await store.readSuspect(this.#held.shard, limits)
      this.#watch.sawSuspect(message !== undefined)
      if (message === undefined) return
      const { attempts } = message
      const calmMs = attempts === 0 || attempts >= retry.attempts ? 0 : suspectLane.calm.remainingMs
      if (calmMs > 0) return lanes.add(this.#held, calmMs)
      // Afterwards there may be another suspect.
      lanes.add(this.#held)
      if (attempts >= retry.attempts) return await this.#settler.settleSuspect(giveUpSuspect(message))
      if (outage.waitMs(performance.now(), this.#held) > 0) return
      if (attempts === 0) suspectLane.calm.begin()
      await this.#settler.settleSuspect(suspected(message, attempts + 1))
      isInFlight = true
      const batch = await this.#calls.publish('suspect', [message])
      if (batch !== undefined) return void (await this.#settler.settle(batch))
      isInFlight = false
      await this.#settler.settleSuspect(suspected(message, attempts))
    } finally {
      if (!isInFlight) suspectLane.leave(this.#held)
    }
  }

  /** Adds the messages in flight to the limits, because their rows still exist and are read again. */
  #withInFlight({ messages, bytes }: ReadLimits): ReadLimits {
    return { messages: messages + this.#calls.size, bytes }
  }
}

/** Whether a call threw, or none was made: the publisher is asked again after its pause. */
function hasFailed(batch: InFlightBatch, settled: number): boolean {
  return batch.failure !== undefined || (batch.hasEnded && batch.calls === 0 && settled === 0)
}
