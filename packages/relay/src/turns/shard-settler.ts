import {
  isTxboxError,
  type BacklogMessage,
  type ParkedSettlement,
  type Settlement as OutboxSettlement,
} from '@txbox/core'
import type { HeldShard } from '../leases/held-shard.ts'
import type { InFlightBatch } from './in-flight-batch.ts'
import { giveUp, refuse, reportRefused, suspected, type Refused } from './refusals.ts'
import { behindRefused, outboxSettlement, parkedSettlement } from './settlements.ts'
import type { ShardCalls } from './shard-calls.ts'
import type { TurnTools } from './shard-turns.ts'

/** Results of messages, and the batch that they belong to. */
interface Outcome {
  readonly accepted: readonly BacklogMessage[]
  readonly refused: readonly Refused[]
  /** Messages of the outbox that wait behind a parked message of their key. */
  readonly behind: readonly BacklogMessage[]
  readonly batch: InFlightBatch | undefined
  /** Whether the batch has no further results. */
  readonly isLast: boolean
}

/** A settlement that the database has not made yet: of messages of the outbox, or of parked messages. */
interface Unsettled {
  readonly outbox?: OutboxSettlement
  readonly parked?: ParkedSettlement
  readonly outcome: Outcome
}

/** Settles the results of one shard's messages, and then emits their events: until then they may be published again. */
export class ShardSettler {
  readonly #held: HeldShard
  readonly #tools: TurnTools
  readonly #calls: ShardCalls
  /** Settlements that the database has refused. The shard does nothing else before these settlements have succeeded. */
  #unsettled: Unsettled[] = []

  constructor(held: HeldShard, tools: TurnTools, calls: ShardCalls) {
    this.#held = held
    this.#tools = tools
    this.#calls = calls
  }

  get hasUnsettled(): boolean {
    return this.#unsettled.length > 0
  }

  /**
   * Settles the results of a batch that have arrived since the last time.
   *
   * @param blocked messages of the outbox that are parked in the same settlement, behind parked messages of their keys.
   * @returns the number of messages that were settled.
   */
  async settle(batch: InFlightBatch, blocked: readonly BacklogMessage[] = []): Promise<number> {
    const { hasEnded: isLast } = batch
    if (this.#calls.isAbandoned && !isLast) return 0
    const { accepted, rejected, unreadable } = batch.takeResults()
    const refused = [
      ...unreadable.map((message) => giveUp(message, message.undecodable!)),
      ...rejected.map(({ message, result }) => refuse(message, result, this.#tools.retry)),
    ]
    const hasResults = accepted.length + refused.length > 0
    if (batch.kind === 'suspect' && isLast && !hasResults) return this.#settleUntried(batch)
    if (accepted.length > 0 && !isLast) this.#calls.brokerAnswered()
    const outcome = {
      accepted,
      refused,
      behind: this.#behind(batch, accepted, refused, blocked),
      batch,
      isLast,
    }
    if (batch.kind === 'outbox') await this.#settleOutbox(outcome)
    else await this.#settleParked(outcome)
    return accepted.length + refused.length + outcome.behind.length
  }

  /**
   * Settles the results of earlier turns.
   *
   * @returns whether more parked messages may be due: those behind settled ones.
   */
  async settleEarlier(): Promise<boolean> {
    await this.#settleAll()
    let mayBeDue = false
    for (const batch of this.#calls.outliving) {
      const settled = await this.settle(batch)
      if (settled > 0 && batch.kind !== 'outbox') mayBeDue = true
    }
    return mayBeDue
  }

  /** Parks messages of the outbox behind parked messages of their keys. */
  async park(blocked: readonly BacklogMessage[]): Promise<void> {
    await this.#settleOutbox({ accepted: [], refused: [], behind: blocked, batch: undefined, isLast: true })
  }

  /**
   * Counts an attempt of a suspect, takes the count back, or gives the suspect up. This settlement is not repeated if
   * it fails, because no published message depends on it.
   */
  async settleSuspect(refused: Refused): Promise<void> {
    await this.#settleAll()
    const { lease, shard } = this.#held
    try {
      await this.#tools.store.settleParked(lease, shard, parkedSettlement([], [refused]))
    } catch (error) {
      if (isUnanswered(error)) this.#held.leave()
      throw error
    }
    if (!refused.refusal.suspect) this.#emit([], [refused], 0)
  }

  /** Must be called when the lease is lost: the next owner publishes the messages again. */
  abandon(): void {
    for (const { outcome } of this.#unsettled.splice(0)) this.#release(outcome)
  }

  #behind(
    batch: InFlightBatch,
    accepted: readonly BacklogMessage[],
    refused: readonly Refused[],
    blocked: readonly BacklogMessage[],
  ): readonly BacklogMessage[] {
    // If a batch outlives its turn, the next read finds the messages that have to wait.
    if (refused.length === 0 || batch.kind !== 'outbox' || this.#calls.outlivesTurn(batch)) return blocked
    return [...blocked, ...behindRefused(batch.messages, accepted, refused)]
  }

  /**
   * Handles a suspect without a result: the attempt does not count, because the relay is alive, unless the call hung or
   * was cut off.
   */
  async #settleUntried(batch: InFlightBatch): Promise<number> {
    const [message] = batch.messages
    const outcome = { accepted: [], refused: [], behind: [], batch, isLast: true }
    if (batch.isLate || this.#tools.signal.aborted) this.#release(outcome)
    else {
      const parked = parkedSettlement([], [suspected(message!, message!.attempts)])
      await this.#settle({ parked, outcome })
    }
    return 0
  }

  async #settleOutbox(outcome: Outcome): Promise<void> {
    const { accepted, refused, behind } = outcome
    if (accepted.length + refused.length + behind.length === 0) return this.#release(outcome)
    await this.#settle({ outbox: outboxSettlement(accepted, refused, behind), outcome })
  }

  async #settleParked(outcome: Outcome): Promise<void> {
    const { accepted, refused } = outcome
    if (accepted.length + refused.length === 0) return this.#release(outcome)
    await this.#settle({ parked: parkedSettlement(accepted, refused), outcome })
  }

  async #settle(unsettled: Unsettled): Promise<void> {
    this.#unsettled.push(unsettled)
    await this.#settleAll()
  }

  /**
   * Repeats refused settlements: publishing their messages again would not help. A settlement without an answer may
   * have been applied, or may still be applied: the shard is then given up, so that the settlement is over when the
   * next term begins.
   */
  async #settleAll(): Promise<void> {
    const { store } = this.#tools
    const { lease, shard } = this.#held
    for (let next = this.#unsettled[0]; next !== undefined; next = this.#unsettled[0]) {
      const { outbox, parked, outcome } = next
      try {
        if (outbox !== undefined) await store.settle(lease, shard, outbox)
        if (parked !== undefined) await store.settleParked(lease, shard, parked)
      } catch (error) {
        const isLost = isTxboxError(error) && error.code === 'TXBOX_LEASE_LOST'
        if (isUnanswered(error)) this.#held.leave()
        if (isUnanswered(error) || isLost) this.abandon()
        throw error
      }
      // The lease may have been lost meanwhile, and the settlement abandoned.
      if (this.#unsettled[0] === next) this.#unsettled.shift()
      this.#emit(outcome.accepted, outcome.refused, outcome.behind.length, outcome.batch)
      this.#release(outcome)
    }
  }

  #release({ batch, accepted, refused, isLast }: Outcome): void {
    if (batch === undefined) return
    this.#calls.settled(batch, [...accepted, ...refused.map(({ message }) => message)], isLast)
  }

  /** Emits the events of settled messages and counts them. */
  #emit(
    accepted: readonly BacklogMessage[],
    refused: readonly Refused[],
    behind: number,
    batch?: InFlightBatch,
  ): void {
    const { events, progress } = this.#tools
    const deadLettered = refused.length === 0 ? 0 : reportRefused(refused, events)
    if (accepted.length > 0) {
      const durationMs = batch === undefined ? 0 : performance.now() - batch.begunAt
      events.emit('published', { shard: this.#held.shard, count: accepted.length, durationMs })
    }
    progress.settled({
      published: accepted.length,
      parked: refused.length - deadLettered + behind,
      deadLettered,
    })
  }
}

/** Returns whether the database gave no answer, so that the settlement may have been applied, or may still be. */
function isUnanswered(error: unknown): boolean {
  return isTxboxError(error) && error.code === 'TXBOX_DATABASE_UNAVAILABLE'
}
