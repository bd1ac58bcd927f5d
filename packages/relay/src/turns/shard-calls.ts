import type { BacklogMessage } from '@txbox/core/ports'
import { diagnose, reasonOf, within, type HeldShard } from '@txbox/core/internal'
import type { CrashWatch } from './crash-watch.ts'
import { GrowingPause } from './growing-pause.ts'
import { InFlightBatch, type BatchKind } from './in-flight-batch.ts'
import { MessagesInFlight } from './messages-in-flight.ts'
import type { Refused } from './refusals.ts'
import type { TurnTools } from './turn-tools.ts'

/**
 * A turn continues while its calls report results: it ends after the first interval of this length in which fewer than
 * a twentieth of its messages got a result, and so after 20 intervals at the latest. Then the turn settles the results
 * so far, and other keys of the shard continue. Settling a busy call in many pieces would reduce the throughput.
 * Measured: turns of 50 ms halve the rate of RabbitMQ.
 */
const INTERVAL_MS = 50
const LEAST_PROGRESS = 1 / 20
/**
 * From this size on, a batch has longer intervals: a broker with many messages in flight answers later, and if the batch is at least
 * half of the limit, there is hardly room for other messages anyway. If there is, the interval is a millisecond for each message.
 * Measured: with 50 ms for 312 messages to SQS, whose answers are ten messages each, a drain took 1.7 times the CPU time of PostgreSQL
 * and 1.15 times that of the relay, because a turn that ends early settles its results in pieces and reads its messages again.
 */
const LARGE_BATCH = 100
const LARGE_BATCH_INTERVAL_MS = 500
/** The maximum number of batches of one shard that outlive their turns. */
const MAX_BATCHES = 16

export interface Results {
  readonly accepted: readonly BacklogMessage[]
  readonly refused: readonly Refused[]
  /** Messages of the outbox that wait behind a parked message of their key. */
  readonly behind: readonly BacklogMessage[]
  readonly batch: InFlightBatch | undefined
  /** Whether the batch has no further results. */
  readonly isLast: boolean
}

/** The batches of one shard that were passed to the publisher and are not settled. */
export class ShardCalls {
  readonly #held: HeldShard
  readonly #tools: TurnTools
  readonly #watch: CrashWatch
  readonly #open = new Set<InFlightBatch>()
  /** The open batches that have outlived their turns, and their messages. */
  readonly #outliving = new Set<InFlightBatch>()
  readonly #messages = new MessagesInFlight()
  readonly #pause = new GrowingPause()
  #isAbandoned = false

  constructor(held: HeldShard, tools: TurnTools, watch: CrashWatch) {
    this.#held = held
    this.#tools = tools
    this.#watch = watch
  }

  /** The number of messages in flight that outlived their turns. */
  get size(): number {
    return this.#messages.size
  }

  get hasSuspect(): boolean {
    return [...this.#outliving].some(({ kind }) => kind === 'suspect')
  }

  /** The number of messages that may be published now. */
  get room(): number {
    const { messages, bytes } = this.#tools.limits
    const isFull = this.#outliving.size >= MAX_BATCHES || this.#messages.bytes >= bytes
    return isFull ? 0 : Math.max(0, messages - this.#messages.size)
  }

  /** The batches whose results later turns settle. */
  get outliving(): readonly InFlightBatch[] {
    return [...this.#outliving]
  }

  /** Whether the lease is lost: the results of batches that have not ended are ignored. */
  get isAbandoned(): boolean {
    return this.#isAbandoned
  }

  /** The pause of this shard alone, in milliseconds, because its calls fail while calls of other shards succeed. */
  remainingMs(now: number): number {
    return this.#pause.remainingMs(now)
  }

  mayPublish(kind: BatchKind, message: BacklogMessage): boolean {
    return this.#outliving.size === 0 || this.#messages.mayPublish(kind, message)
  }

  outlivesTurn(batch: InFlightBatch): boolean {
    return this.#outliving.has(batch)
  }

  /**
   * Passes messages to the publisher, and waits until the calls have ended, or the turn is over.
   *
   * @returns `undefined` when the broker is unavailable: nothing was published.
   */
  async publish(kind: BatchKind, messages: readonly BacklogMessage[]): Promise<InFlightBatch | undefined> {
    await this.#watch.note(kind, messages)
    // Checked again: the broker may have become unavailable while the database was read.
    if (!this.#tools.outage.admits(performance.now(), this.#held)) {
      this.#watch.forget(messages)
      return undefined
    }
    this.#held.beginBatch()
    const batch = new InFlightBatch(kind, messages, this.#held, this.#tools)
    this.#open.add(batch)
    void batch.ended.then(() => this.#callsEnded(batch))
    await untilTurnEnds(batch, this.#intervalMs(messages.length))
    if (!batch.hasEnded) this.#keep(batch)
    return batch
  }

  /** Must be called when results of a batch are settled, or are to be ignored. */
  release({ batch, accepted, refused, isLast }: Results): void {
    if (batch === undefined) return
    if (isLast) return this.#close(batch)
    for (const message of accepted) this.#messages.remove(batch.kind, message)
    for (const { message } of refused) this.#messages.remove(batch.kind, message)
  }

  /** Must be called when the broker answers: an outage, if there is one, is over. */
  brokerAnswered(): void {
    const { outage, lanes, telemetry } = this.#tools
    const { since } = outage
    if (!outage.succeeded()) return
    lanes.resumePaused()
    const seconds = (performance.now() - since!) / 1000
    telemetry()?.record('txbox.relay.outage.duration', seconds, {})
  }

  /** Must be called when the lease is lost. Resolves when the calls have ended: the shard is not taken again before. */
  async abandon(): Promise<void> {
    this.#isAbandoned = true
    await Promise.all(
      [...this.#open].map(async (batch) => {
        await batch.ended
        this.#close(batch)
      }),
    )
  }

  /** Keeps a batch that outlives its turn. */
  #keep(batch: InFlightBatch): void {
    if (this.#isAbandoned) return
    for (const message of batch.messages) this.#messages.add(batch.kind, message)
    this.#outliving.add(batch)
    // Gathers results for as long as a turn waits.
    batch.onNews(() => {
      if (this.#isAbandoned) return
      const gatherMs = this.#intervalMs(batch.messages.length - batch.answered)
      this.#tools.lanes.add(this.#held, batch.hasEnded ? 0 : gatherMs)
    })
  }

  #intervalMs(messages: number): number {
    const isLarge = messages >= LARGE_BATCH && messages * 2 >= this.#tools.limits.messages
    return isLarge
      ? LARGE_BATCH_INTERVAL_MS
      : Math.min(LARGE_BATCH_INTERVAL_MS, Math.max(INTERVAL_MS, messages))
  }

  #callsEnded(batch: InFlightBatch): void {
    this.#held.endCalls()
    if (batch.calls === 0) return this.#tools.outage.giveBack()
    if (this.#isAbandoned) return
    if (batch.failure !== undefined) return this.#callsFailed(batch, batch.failure.error)
    this.#pause.succeeded()
    this.brokerAnswered()
  }

  #callsFailed(batch: InFlightBatch, error: unknown): void {
    const { outage, lanes, events, signal } = this.#tools
    if (signal.aborted) return this.#held.cutOff()
    const now = performance.now()
    if (batch.isLate) return void this.#pause.failed(now)
    const ownMs = outage.isOwnFailure(this.#held) ? this.#pause.failed(now) : 0
    const outageMs = outage.failed(this.#held, batch.begunAt, now)
    if (outage.isOpenToOthers) lanes.resumePaused()
    if (outageMs === undefined && ownMs === 0) return
    const retryInMs = Math.max(outageMs ?? 0, ownMs)
    events.emit('unavailable', { error, retryInMs })
    diagnose('unavailable', () => ({ retryInMs, reason: reasonOf(error) }))
  }

  #close(batch: InFlightBatch): void {
    if (!this.#open.delete(batch)) return
    if (this.#outliving.delete(batch)) {
      for (const message of batch.messages) this.#messages.remove(batch.kind, message)
    }
    this.#watch.forget(batch.messages)
    this.#held.closeBatch()
    if (batch.kind === 'suspect') this.#tools.suspectLane.leave(this.#held)
  }
}

/** Waits until the calls of a batch have ended, or make no more progress. */
async function untilTurnEnds(batch: InFlightBatch, intervalMs: number): Promise<void> {
  const least = batch.messages.length * LEAST_PROGRESS
  for (let before = -least; !batch.hasEnded && batch.answered - before >= least;) {
    before = batch.answered
    await within(batch.ended, intervalMs, () => undefined)
  }
}
