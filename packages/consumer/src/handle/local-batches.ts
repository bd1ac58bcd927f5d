import type { ConsumerSettings, LocalHandlerSettings } from '../options/consumer-settings.ts'
import { isTimedOut, mayHaveCommitted } from '../errors/failure-kind.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'
import type { KeyLanes } from '../receive/key-lanes.ts'
import type { Permits } from '../receive/permits.ts'
import { mayBlameOneMessage, stoppedBefore, type Handling, type Turns, type Verdict } from './handling.ts'

/** The parts of the consumer that batches need. */
interface Tools {
  readonly permits: Permits
  readonly handling: Handling
  readonly lanes: KeyLanes
  /** Aborted when the consumer stops. */
  readonly stopping: AbortSignal
}

const HELD_BACK: Verdict = { kind: 'held-back' }
const LOST: Verdict = { kind: 'lost' }

/**
 * A call of the handler for each batch of a local consumer. A batch has messages of one type, and may have several of a key, in their
 * order: a message joins a batch only if all earlier messages of its key that the consumer holds are in the same batch.
 */
export class LocalBatches implements Turns {
  readonly keepsKeyRuns = true
  readonly #tools: Tools
  readonly #maxSize: number
  readonly #handlers: ReadonlyMap<string, LocalHandlerSettings>
  #lingerMs: number
  /** The deliveries that wait for a batch, in the order in which they came, and since when they wait. */
  readonly #waiting = new Map<HeldDelivery, number>()
  /** The type of each message as it was received: a handler may change its message. */
  readonly #types = new WeakMap<HeldDelivery, string | undefined>()
  /** The verdicts of the batches that are being handled. */
  readonly #verdicts = new Map<HeldDelivery, PromiseWithResolvers<Verdict>>()
  #isScheduled = false
  /** Whether the next batch waits for a permit. */
  #applies = false
  #timer: NodeJS.Timeout | undefined
  readonly #applicant = {
    proceed: (): boolean => {
      this.#applies = false
      const batch = this.#nextBatch()
      if (batch === undefined) return false
      this.#begin(batch)
      this.#schedule()
      return true
    },
  }

  constructor(tools: Tools, { work }: ConsumerSettings, batch: NonNullable<ConsumerSettings['batch']>) {
    this.#tools = tools
    this.#maxSize = batch.maxSize
    this.#lingerMs = batch.lingerMs
    this.#handlers = work.kind === 'local' ? work.handlers : new Map()
    // A later message of the key may join a batch now. It proceeds when its batch begins.
    tools.lanes.whenFirst = () => this.#schedule()
  }

  enter(held: HeldDelivery): boolean {
    if (!this.#types.has(held)) this.#types.set(held, held.message.type)
    this.#waiting.set(held, performance.now())
    this.#schedule()
    return false
  }

  stop(): void {
    this.#lingerMs = 0
    this.#schedule()
  }

  async handle(held: HeldDelivery): Promise<Verdict> {
    const verdict = await this.#verdicts.get(held)!.promise
    this.#verdicts.delete(held)
    return verdict
  }

  /** Waits for the end of the tick: the source hands over many deliveries in one. */
  #schedule(): void {
    if (this.#isScheduled || this.#applies) return
    this.#isScheduled = true
    queueMicrotask(() => {
      this.#isScheduled = false
      this.#beginAll()
    })
  }

  #beginAll(): void {
    while (!this.#applies) {
      const batch = this.#nextBatch()
      if (batch === undefined) return
      // Without a permit now, the batch is collected again when there is one.
      if (this.#tools.permits.take(this.#applicant)) this.#begin(batch)
      else this.#applies = true
    }
  }

  /** Returns the next batch that is full, or whose oldest delivery has waited long enough. Changes nothing. */
  #nextBatch(): readonly HeldDelivery[] | undefined {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const tried = new Set<unknown>()
    let soonestMs = Infinity
    for (const held of this.#waiting.keys()) {
      // The delivery was lost or returned while it waited.
      if (!held.isWaiting) this.#waiting.delete(held)
      const type = this.#types.get(held)
      if (!held.isWaiting || tried.has(type)) continue
      tried.add(type)
      const batch = this.#collected(type)
      const [oldest] = batch
      if (oldest === undefined) continue
      const waitMs = this.#lingerMs - (performance.now() - this.#waiting.get(oldest)!)
      if (batch.length === this.#maxSize || waitMs <= 0 || oldest.delivery.isSuspect === true) return batch
      soonestMs = Math.min(soonestMs, waitMs)
    }
    if (soonestMs < Infinity) this.#timer = setTimeout(() => this.#schedule(), Math.ceil(soonestMs))
    return undefined
  }

  #collected(type: string | undefined): readonly HeldDelivery[] {
    const batch: HeldDelivery[] = []
    const ofKey = new Map<string, number>()
    for (const held of this.#waiting.keys()) {
      if (batch.length === this.#maxSize) break
      const { key, isSuspect } = held.delivery
      if (this.#types.get(held) !== type || !held.isWaiting) continue
      const earlier = key === undefined ? 0 : (ofKey.get(key) ?? 0)
      if (!this.#tools.lanes.isBehind(held, earlier)) continue
      // A message that may crash the process is handled alone.
      if (isSuspect === true && batch.length > 0) continue
      batch.push(held)
      if (isSuspect === true) break
      if (key !== undefined) ofKey.set(key, earlier + 1)
    }
    return batch
  }

  #begin(batch: readonly HeldDelivery[]): void {
    const present = batch.filter((held) => this.#waiting.delete(held) && held.proceed())
    for (const held of present) this.#verdicts.set(held, Promise.withResolvers())
    void this.#handle(present)
  }

  async #handle(batch: readonly HeldDelivery[]): Promise<void> {
    await this.#attempt(batch, new Set())
    this.#tools.permits.release()
    this.#schedule()
  }

  /**
   * Handles a batch. If that may have failed because of one message, in two parts, and so on, so that only the message that is to
   * blame counts an attempt. After a time-out one by one: each further part could take as long.
   *
   * @param heldBack the keys of which a message was not handled. Their later messages wait.
   */
  async #attempt(all: readonly HeldDelivery[], heldBack: Set<string>): Promise<void> {
    const batch = all.filter((held) => this.#mayRun(held, heldBack))
    if (batch.length === 0) return
    const running = this.#tools.handling.together(batch)
    if (this.#isAtLeastOnce(batch[0]!)) {
      await Promise.all(batch.map(async (held, n) => this.#answer(held, await running[n]!)))
      return
    }
    const verdicts = await Promise.all(running)
    const blamed = verdicts.find(mayBlameOneMessage)
    // After a COMMIT in the middle, none may be handled again.
    if (batch.length > 1 && blamed !== undefined && !mayHaveCommitted(errorOf(blamed))) {
      const size = isTimedOut(errorOf(blamed)) ? 1 : Math.ceil(batch.length / 2)
      for (let n = 0; n < batch.length; n += size) await this.#attempt(batch.slice(n, n + size), heldBack)
      return
    }
    for (const [n, held] of batch.entries()) {
      const { key } = held.delivery
      if (verdicts[n]!.kind !== 'handled' && key !== undefined) heldBack.add(key)
      this.#answer(held, verdicts[n]!)
    }
  }

  /** Answers for a delivery that must not be handled now. */
  #mayRun(held: HeldDelivery, heldBack: Set<string>): boolean {
    const { stopping } = this.#tools
    const { key } = held.delivery
    let verdict: Verdict
    if (key !== undefined && heldBack.has(key)) verdict = HELD_BACK
    else if (held.isLost) verdict = LOST
    else if (stopping.aborted) verdict = stoppedBefore(stopping.reason)
    else return true
    if (key !== undefined) heldBack.add(key)
    this.#answer(held, verdict)
    return false
  }

  /** Then the handler acknowledges each message by itself, and nothing is rolled back. */
  #isAtLeastOnce(held: HeldDelivery): boolean {
    return this.#handlers.get(this.#types.get(held) ?? '')?.isAtLeastOnce === true
  }

  #answer(held: HeldDelivery, verdict: Verdict): void {
    this.#verdicts.get(held)?.resolve(verdict)
  }
}

function errorOf(verdict: Verdict): unknown {
  return verdict.kind === 'failed' ? verdict.error : undefined
}
