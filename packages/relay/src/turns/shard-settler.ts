import { isTxboxError } from '@txbox/core'
import type { BacklogMessage, ParkedSettlement } from '@txbox/core/ports'
import { isFullDisk, readOnlyPart, type HeldShard } from '@txbox/core/internal'
import type { InFlightBatch } from './in-flight-batch.ts'
import { parkedSettlement } from './parked-settlement.ts'
import { behindRefused, giveUp, refuse, reportRefused, suspected, type Refused } from './refusals.ts'
import { diagnoseSettled } from './relay-diagnostics.ts'
import { countSettled } from './relay-metrics.ts'
import type { Results, ShardCalls } from './shard-calls.ts'
import type { TurnTools } from './turn-tools.ts'

const NO_RESULTS: Results = { accepted: [], refused: [], behind: [], batch: undefined, isLast: true }

interface Unsettled extends Results {
  /** The settlement of parked messages; without it, the results are those of messages of the outbox. */
  readonly parked: ParkedSettlement | undefined
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
      ...rejected.map(({ message, result }) => refuse(message, result, this.#tools)),
    ]
    if (accepted.length > 0 && !isLast) this.#calls.brokerAnswered()
    // If a batch outlives its turn, the next read finds the messages that have to wait.
    const isWhole = batch.kind === 'outbox' && !this.#calls.outlivesTurn(batch)
    const behind = isWhole ? [...blocked, ...behindRefused(batch.messages, accepted, refused)] : blocked
    const results = { accepted, refused, behind, batch, isLast }
    const count = accepted.length + refused.length + behind.length
    if (count > 0) {
      const parked = batch.kind === 'outbox' ? undefined : parkedSettlement(accepted, refused)
      await this.#settleAll({ ...results, parked })
    } else if (batch.kind === 'suspect' && isLast) await this.#settleUntried(batch)
    else this.#calls.release(results)
    return count
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
    await this.#settleAll({ ...NO_RESULTS, behind: blocked, parked: undefined })
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
    if (!refused.refusal.suspect) this.#emit({ ...NO_RESULTS, refused: [refused] })
  }

  /** Must be called when the lease is lost: the next owner publishes the messages again. */
  abandon(): void {
    for (const results of this.#unsettled.splice(0)) this.#calls.release(results)
  }

  /**
   * Handles a suspect without a result: the attempt does not count, because the relay is alive, unless the call hung or
   * was cut off.
   */
  async #settleUntried(batch: InFlightBatch): Promise<void> {
    const results = { ...NO_RESULTS, batch }
    if (batch.isLate || this.#tools.signal.aborted) return this.#calls.release(results)
    const [message] = batch.messages
    const parked = parkedSettlement([], [suspected(message!, message!.attempts)])
    await this.#settleAll({ ...results, parked })
  }

  /**
   * Settles these results, after those that the database has refused before: publishing their messages again would not
   * help.
   */
  async #settleAll(...added: readonly Unsettled[]): Promise<void> {
    this.#unsettled.push(...added)
    const { store } = this.#tools
    const { lease, shard } = this.#held
    for (let next = this.#unsettled[0]; next !== undefined; next = this.#unsettled[0]) {
      const { accepted, refused, behind, parked } = next
      try {
        if (parked !== undefined) await store.settleParked(lease, shard, parked)
        else {
          await store.settle(lease, shard, {
            accepted,
            refused: refused.map(({ refusal }) => refusal),
            behind: behind.map((row) => ({ row, suspect: false })),
          })
        }
      } catch (error) {
        this.#settlingFailed(error)
        throw error
      }
      // The lease may have been lost meanwhile, and the settlement abandoned.
      if (this.#unsettled[0] === next) this.#unsettled.shift()
      this.#emit(next)
      this.#calls.release(next)
    }
  }

  /**
   * A settlement without an answer may have been applied, or may still be applied: the shard is then given up, so that the
   * settlement is over when the next term begins.
   */
  #settlingFailed(error: unknown): void {
    const isLost = isTxboxError(error) && error.code === 'TXBOX_LEASE_LOST'
    if (isUnanswered(error)) this.#held.leave()
    if (isUnanswered(error) || isLost) this.abandon()
  }

  #emit({ accepted, refused, behind, batch }: Results): void {
    const { events, poller } = this.#tools
    const telemetry = this.#tools.telemetry()
    if (telemetry !== undefined) countSettled(telemetry, { accepted, refused })
    const deadLettered = refused.length === 0 ? 0 : reportRefused(refused, events)
    const durationMs = batch === undefined ? 0 : performance.now() - batch.begunAt
    diagnoseSettled(this.#held.shard, accepted, refused, durationMs)
    if (accepted.length > 0) {
      events.emit('published', { shard: this.#held.shard, count: accepted.length, durationMs })
    }
    const parked = refused.length - deadLettered + behind.length
    poller.settled({ published: accepted.length, parked, deadLettered })
  }
}

/**
 * Returns whether the database gave no answer, so that the settlement may have been applied, or may still be. A full disk and
 * a read-only server are answers: otherwise the shard could publish its messages again and again until the answer changes.
 */
function isUnanswered(error: unknown): boolean {
  if (!isTxboxError(error) || error.code !== 'TXBOX_DATABASE_UNAVAILABLE') return false
  return !isFullDisk(error) && readOnlyPart(error) === undefined
}
