import { inboxKey } from '@txbox/core/internal'
import type { HandledOutcome } from '../options/consumer.ts'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import { DedupChain, DedupMarks } from './dedup-chain.ts'
import type { DeliverySlot } from '../receive/delivery-slot.ts'
import { isStopped, isUnavailable } from '../errors/failure-kind.ts'
import type { HeldDeliveries } from '../receive/held-deliveries.ts'
import { HandlerCall } from './handler-call.ts'
import { InboxWork } from './inbox-work.ts'
import { PlainWork } from './plain-work.ts'
import { SettlingWork } from './settling-work.ts'
import type { Work, WorkResult } from './work.ts'

/** The result of handling a delivery. */
export type Verdict =
  | { readonly kind: 'handled'; readonly outcome: HandledOutcome; readonly durationMs: number }
  | { readonly kind: 'in-flight'; readonly retryAfterMs: number }
  | {
      readonly kind: 'failed'
      readonly error: unknown
      readonly startedAt: number
      /** See `HandlerCall.hasWritten`. */
      readonly hasWritten: boolean
      readonly marks?: DedupMarks | undefined
    }
  | { readonly kind: 'lost' }

/** The delay before the next attempt of a message that the inbox reports as in flight. */
const IN_FLIGHT_RETRY_MS = 1000

/**
 * Handles deliveries in four steps: asks the dedup stores, accepts the delivery (only at most once), calls the handler, and
 * marks the message in the dedup stores. `Conclusion` settles the delivery according to the verdict.
 */
export class Handling {
  readonly #settings: ConsumerSettings
  readonly #held: HeldDeliveries
  readonly #conclude: (slot: DeliverySlot, verdict: Verdict) => Promise<void>
  readonly #stopping: AbortSignal
  readonly #dedup: DedupChain
  readonly #work: Work

  constructor(
    settings: ConsumerSettings,
    held: HeldDeliveries,
    conclude: (slot: DeliverySlot, verdict: Verdict) => Promise<void>,
    stopping: AbortSignal,
  ) {
    this.#stopping = stopping
    this.#settings = settings
    this.#held = held
    this.#conclude = conclude
    this.#dedup = new DedupChain(settings)
    this.#work = workOf(settings, held)
  }

  /**
   * Handles and concludes one delivery.
   *
   * @param returned is called when the handler has returned, or was not called, and before the delivery is concluded.
   */
  async one(slot: DeliverySlot, returned: () => void = () => undefined): Promise<void> {
    const call = this.#begin([slot])
    const prepared = await (this.#asksFirst ? this.#prepare(slot, call) : this.#fresh(slot, call))
    const verdict =
      'kind' in prepared
        ? prepared
        : await this.#verdict(prepared, call, () => this.#work.alone(slot, call, returned))
    this.#end([slot], call)
    returned()
    await this.#conclude(slot, verdict)
  }

  /** Handles and concludes several deliveries together. If that may have failed because of one message, one by one. */
  async several(slots: readonly DeliverySlot[], returned: () => void): Promise<void> {
    const call = this.#begin(slots)
    const prepared = this.#asksFirst
      ? await Promise.all(slots.map((slot) => this.#prepare(slot, call)))
      : slots.map((slot) => this.#fresh(slot, call))
    const concluded = prepared.map(async (found, n) => {
      if ('kind' in found) await this.#conclude(slots[n]!, found)
    })
    const fresh = prepared.filter((found) => !('kind' in found)) as readonly Prepared[]
    const working = fresh.map(({ slot }) => slot)
    const results = working.length === 0 ? [] : this.#work.together(working, call, returned)
    const verdicts = fresh.map((one, n) => this.#verdict(one, call, () => results[n]!))
    if (this.#work.isAllOrNothing && fresh.length > 1 && mayBlameOneMessage(await verdicts[0])) {
      for (const verdict of verdicts) await releaseMarks(await verdict)
      this.#end(working, call)
      for (const slot of working) {
        if (!this.#stopping.aborted) await this.one(slot)
        else
          await this.#conclude(slot, {
            kind: 'failed',
            error: this.#stopping.reason,
            startedAt: call.startedAt,
            hasWritten: false,
          })
      }
    } else {
      await Promise.all(
        fresh.map(async ({ slot }, n) => {
          const verdict = await verdicts[n]!
          this.#leaveCall(slot)
          await this.#conclude(slot, verdict)
        }),
      )
    }
    await Promise.all(concluded)
    this.#end(slots, call)
    returned()
  }

  #begin(slots: readonly DeliverySlot[]): HandlerCall {
    const call = new HandlerCall(slots, this.#settings.handleTimeoutMs, () => {
      // If the library hides its connection, the transaction of a call that was given up may still run.
      for (const slot of slots) this.#held.pauseHeartbeat(slot, true)
    })
    for (const slot of slots) {
      slot.state = 'running'
      slot.call = call
    }
    return call
  }

  #end(slots: readonly DeliverySlot[], call: HandlerCall): void {
    call.end()
    for (const slot of slots) if (slot.call === call) this.#leaveCall(slot)
  }

  #leaveCall(slot: DeliverySlot): void {
    slot.call = undefined
    this.#held.pauseHeartbeat(slot, false)
  }

  /** Whether a dedup store or the source must answer before the handler is called. */
  get #asksFirst(): boolean {
    const { work, dedup } = this.#settings
    return dedup.length > 0 || (work.kind === 'none' && work.atMostOnce)
  }

  /**
   * The only step before the handler if neither a dedup store nor the source must answer.
   *
   * @returns a verdict if the handler must not be called.
   */
  #fresh(slot: DeliverySlot, { startedAt }: HandlerCall): Prepared | Verdict {
    const { work, name, keyOf } = this.#settings
    try {
      // An inbox checks the key itself.
      if (work.kind !== 'inbox') inboxKey(keyOf(slot.message), name)
    } catch (error) {
      return { kind: 'failed', error, startedAt, hasWritten: false }
    }
    return slot.isLost ? { kind: 'lost' } : { slot, marks: NO_MARKS }
  }

  /** Takes the steps before the handler. @returns a verdict if the handler must not be called. */
  async #prepare(slot: DeliverySlot, call: HandlerCall): Promise<Prepared | Verdict> {
    const { work, name, keyOf, log, source } = this.#settings
    let marks: DedupMarks | undefined
    try {
      // An inbox checks the key itself.
      if (work.kind !== 'inbox') inboxKey(keyOf(slot.message), name)
      const failed = (error: unknown): void =>
        log.events.emit('error', { error, source: source.name, message: slot.message })
      const found = await this.#dedup.begin(slot.message, failed)
      if (found.status === 'in-flight') return { kind: 'in-flight', retryAfterMs: found.retryAfterMs }
      if (found.status === 'done') {
        return { kind: 'handled', outcome: 'duplicate', durationMs: call.durationMs }
      }
      marks = found.marks
      if (work.kind === 'none' && work.atMostOnce) {
        await slot.delivery.accept()
        if (!slot.isLost) slot.isSettled = true
        this.#held.stopHeartbeat(slot)
      }
      if (call.isGivenUp) throw call.givenUp.reason
      if (!slot.isLost) return { slot, marks }
      await marks.release()
      return { kind: 'lost' }
    } catch (error) {
      return { kind: 'failed', error, startedAt: call.startedAt, hasWritten: false, marks }
    }
  }

  async #verdict(
    { slot, marks }: Prepared,
    call: HandlerCall,
    work: () => Promise<WorkResult>,
  ): Promise<Verdict> {
    try {
      const { outcome, elapsedMs } = await work()
      if (outcome === 'in-flight') {
        await marks.release()
        return { kind: 'in-flight', retryAfterMs: IN_FLIGHT_RETRY_MS }
      }
      await marks.complete()
      return { kind: 'handled', outcome, durationMs: elapsedMs ?? call.durationMs }
    } catch (error) {
      const { startedAt, hasWritten } = call
      if (!slot.isExpired) return { kind: 'failed', error, startedAt, hasWritten, marks }
      await marks.release()
      return { kind: 'lost' }
    }
  }
}

const NO_MARKS = new DedupMarks([], undefined, () => undefined)

/** A delivery that the handler may handle, and the marks of its message in the dedup stores. */
interface Prepared {
  readonly slot: DeliverySlot
  readonly marks: DedupMarks
}

function workOf(settings: ConsumerSettings, held: HeldDeliveries): Work {
  const { work } = settings
  if (work.kind === 'inbox') return new InboxWork(work, settings)
  if (work.kind === 'database') return new SettlingWork(work, settings, held)
  return new PlainWork(work, settings)
}

/** Returns whether one message may be the reason that the whole batch has failed. */
function mayBlameOneMessage(verdict: Verdict | undefined): boolean {
  if (verdict?.kind === 'lost') return true
  if (verdict?.kind !== 'failed') return false
  return !isUnavailable(verdict.error, verdict.hasWritten) && !isStopped(verdict.error)
}

async function releaseMarks(verdict: Verdict): Promise<void> {
  if (verdict.kind === 'failed') await verdict.marks?.release()
}
