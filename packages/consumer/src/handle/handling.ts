import type { Loss } from '@txbox/core'
import { inboxKey } from '@txbox/core/internal'
import type { HandledOutcome } from '../options/consumer.ts'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import { DedupChain, type DedupMarks } from './dedup-chain.ts'
import { isStopped, isUnavailable } from '../errors/failure-kind.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'
import type { Permits } from '../receive/permits.ts'
import { HandlerCall } from './handler-call.ts'
import { InboxWork } from './inbox-work.ts'
import { LocalWork } from './local-work.ts'
import { PlainWork } from './plain-work.ts'
import { SettlingWork } from './settling-work.ts'
import { TracedWork } from './traced-work.ts'
import type { Work, WorkResult } from './work.ts'

/** The result of handling a delivery. */
export type Verdict =
  | { readonly kind: 'handled'; readonly outcome: HandledOutcome; readonly durationMs: number }
  | { readonly kind: 'in-flight'; readonly retryAfterMs: number }
  | {
      readonly kind: 'failed'
      readonly error: unknown
      readonly startedAt: number
      /** Whether all messages fail at the moment. */
      readonly isUnavailable: boolean
      /** Whether the transaction has lost its connection, although other connections reach the server. */
      readonly isConnectionLost: boolean
      readonly marks?: DedupMarks | undefined
    }
  | { readonly kind: 'lost' }
  /** The message of a local consumer could not be locked. */
  | { readonly kind: 'skipped' }
  /** The delivery waits for its turn again, because an earlier message of its key has not been handled. */
  | { readonly kind: 'held-back' }

/** The calls of the handler: one for each delivery, or for each batch. */
export interface Turns {
  /** @returns whether it is the delivery's turn at once. Otherwise the delivery proceeds when its turn has come. */
  enter(held: HeldDelivery): boolean
  handle(held: HeldDelivery): Promise<Verdict>
  /** Called when the consumer stops, after the deliveries that wait have been interrupted. */
  stop?(): void
  /** Whether `enter` is called for later deliveries of a key, too, and keeps their order itself. @default false */
  readonly keepsKeyRuns?: boolean
}

/** Why the handler was not called for a message that may be gone. */
const UNANSWERED_ACCEPTANCE =
  'The connection broke while the source accepted the message, before the handler was called. The message is delivered again ' +
  'only if the source had not received the acceptance.'

/** The delay before the next attempt of a message that the inbox reports as in flight. */
const IN_FLIGHT_RETRY_MS = 1000

/**
 * Handles deliveries in four steps: asks the dedup stores, accepts the delivery (only at most once), calls the handler, and
 * marks the message in the dedup stores. `Conclusion` settles the delivery according to the verdict.
 */
export class Handling implements Turns {
  readonly #settings: ConsumerSettings
  readonly #permits: Permits
  readonly #stopping: AbortSignal
  readonly #dedup: DedupChain
  readonly #work: Work
  /** Whether a dedup store or the source must answer before the handler is called. */
  readonly #asksFirst: boolean

  constructor(settings: ConsumerSettings, permits: Permits, stopping: AbortSignal) {
    const { work, dedup } = settings
    this.#settings = settings
    this.#permits = permits
    this.#stopping = stopping
    this.#dedup = new DedupChain(settings)
    this.#work = new TracedWork(workOf(settings), settings)
    this.#asksFirst = dedup.length > 0 || (work.kind === 'none' && work.atMostOnce)
  }

  enter(held: HeldDelivery): boolean {
    return this.#permits.take(held)
  }

  handle(held: HeldDelivery): Promise<Verdict> {
    return this.#one(held, this.#permits.release)
  }

  /** Handles several deliveries in one call of the handler, without dedup stores. @returns the verdicts in the same order. */
  together(batch: readonly HeldDelivery[]): readonly Promise<Verdict>[] {
    const call = new HandlerCall(batch, this.#settings.handleTimeoutMs)
    const results = this.#work.together(batch, call)
    return batch.map((held, n) => this.#verdict(held, call, undefined, results[n]))
  }

  /** @param returned is called once, when the handler has returned, or was not called. */
  #one(held: HeldDelivery, returned?: () => void): Promise<Verdict> {
    const call = new HandlerCall([held], this.#settings.handleTimeoutMs, returned)
    return this.#asksFirst ? this.#asked(held, call) : this.#verdict(held, call)
  }

  /**
   * Handles several deliveries together. If that may have failed because of one message, one by one.
   *
   * @param answer is called with the verdict on each delivery.
   * @param returned is called when the handler has returned: at the latest when there are all verdicts.
   */
  async several(
    batch: readonly HeldDelivery[],
    answer: (held: HeldDelivery, verdict: Verdict) => void,
    returned: () => void,
  ): Promise<void> {
    const { isAllOrNothing } = this.#work
    const call = new HandlerCall(batch, this.#settings.handleTimeoutMs, isAllOrNothing ? undefined : returned)
    const prepared = await Promise.all(batch.map((held) => this.#prepare(held, call)))
    const ready: { held: HeldDelivery; marks: DedupMarks | undefined }[] = []
    for (const [n, found] of prepared.entries()) {
      const held = batch[n]!
      if ('kind' in found) answer(held, found)
      else ready.push({ held, marks: found.marks })
    }
    const working = ready.map(({ held }) => held)
    const results = working.length === 0 ? [] : this.#work.together(working, call)
    const verdicts = ready.map(({ held, marks }, n) => this.#verdict(held, call, marks, results[n]))
    if (isAllOrNothing && working.length > 1 && mayBlameOneMessage(await verdicts[0])) {
      for (const verdict of await Promise.all(verdicts)) {
        if (verdict.kind === 'failed') await verdict.marks?.release()
      }
      for (const held of working) {
        answer(held, this.#stopping.aborted ? failed(this.#stopping.reason, call) : await this.#one(held))
      }
    } else {
      await Promise.all(working.map(async (held, n) => answer(held, await verdicts[n]!)))
    }
    returned()
  }

  async #asked(held: HeldDelivery, call: HandlerCall): Promise<Verdict> {
    const prepared = await this.#prepare(held, call)
    return 'kind' in prepared ? prepared : this.#verdict(held, call, prepared.marks)
  }

  /** Takes the steps before the handler. @returns a verdict if the handler must not be called. */
  async #prepare(held: HeldDelivery, call: HandlerCall): Promise<Prepared | Verdict> {
    const prepared = await this.#asks(held, call)
    if ('kind' in prepared) call.leave(held)
    return prepared
  }

  async #asks(held: HeldDelivery, call: HandlerCall): Promise<Prepared | Verdict> {
    const { work, dedup } = this.#settings
    let marks: DedupMarks | undefined
    try {
      this.#checkKey(held)
      if (dedup.length > 0) {
        const found = await this.#dedup.begin(held, call.givenUp)
        if (found.status === 'done') {
          return { kind: 'handled', outcome: 'duplicate', durationMs: call.durationMs }
        }
        if (found.status !== 'new') return { kind: 'in-flight', retryAfterMs: found.retryAfterMs }
        marks = found.marks
      }
      if (work.kind === 'none' && work.atMostOnce && !held.isLost) {
        await held.acceptFirst()
        if (held.isLost) throw new Error(UNANSWERED_ACCEPTANCE)
      }
      if (call.isGivenUp) throw call.givenUp.reason
      if (!held.isLost) return { marks }
      await marks?.release()
      return { kind: 'lost' }
    } catch (error) {
      return failed(error, call, marks)
    }
  }

  /** @param together the result of a call for several deliveries. By default, the delivery is handled alone. */
  async #verdict(
    held: HeldDelivery,
    call: HandlerCall,
    marks?: DedupMarks,
    together?: Promise<WorkResult>,
  ): Promise<Verdict> {
    try {
      const { outcome, elapsedMs } = await (together ?? this.#alone(held, call))
      if (outcome === 'in-flight') {
        await marks?.release()
        return { kind: 'in-flight', retryAfterMs: IN_FLIGHT_RETRY_MS }
      }
      if (outcome === 'skipped') return { kind: 'skipped' }
      if (marks !== undefined) await marks.complete(call.givenUp)
      return { kind: 'handled', outcome, durationMs: elapsedMs ?? call.durationMs }
    } catch (error) {
      if (!held.isExpired) return failed(error, call, marks, await this.#lossOf(error, call))
      await marks?.release()
      return { kind: 'lost' }
    } finally {
      call.leave(held)
    }
  }

  /** Returns what was lost while the handler ran. The deliveries of a batch share the answer. */
  #lossOf(error: unknown, call: HandlerCall): Promise<Loss> | Loss {
    const { work } = this.#settings
    if (work.kind === 'none' || !call.hasWritten) return 'nothing'
    call.loss ??= work.kind === 'inbox' ? work.inbox.lossOf?.(error) : work.ports.lossOf(error)
    return call.loss ?? 'nothing'
  }

  #alone(held: HeldDelivery, call: HandlerCall): Promise<WorkResult> {
    this.#checkKey(held)
    // At most once, a message that was accepted does not come back.
    if (held.isLost && !held.isSettled) throw held.interruption
    return this.#work.alone(held, call)
  }

  /** @throws {InvalidMessageError} for a message without a usable key. */
  #checkKey({ message }: HeldDelivery): void {
    const { work, name, keyOf } = this.#settings
    // An inbox checks the key itself.
    if (work.kind !== 'inbox') inboxKey(keyOf(message), name)
  }
}

/** The handler may be called. */
type Prepared = { readonly marks: DedupMarks | undefined }

function workOf(settings: ConsumerSettings): Work {
  const { work } = settings
  if (work.kind === 'inbox') return new InboxWork(work, settings)
  if (work.kind === 'database') return new SettlingWork(work, settings)
  if (work.kind === 'local') return new LocalWork(work, settings)
  return new PlainWork(work, settings)
}

function failed(error: unknown, call: HandlerCall, marks?: DedupMarks, loss: Loss = 'nothing'): Verdict {
  const { startedAt, hasWritten, isOwnStatement } = call
  const isConnectionLost = loss === 'connection'
  const isDown =
    loss === 'server' || isOwnStatement || (!isConnectionLost && isUnavailable(error, hasWritten))
  return { kind: 'failed', error, startedAt, isUnavailable: isDown, isConnectionLost, marks }
}

/** The verdict on a delivery whose handler is not called because the consumer stops. */
export function stoppedBefore(reason: unknown): Verdict {
  const startedAt = performance.now()
  return { kind: 'failed', error: reason, startedAt, isUnavailable: false, isConnectionLost: false }
}

/** Returns whether one message may be the reason that the whole batch has failed. */
export function mayBlameOneMessage(verdict: Verdict | undefined): boolean {
  if (verdict?.kind === 'lost') return true
  return verdict?.kind === 'failed' && !verdict.isUnavailable && !isStopped(verdict.error)
}
