import { exponentialBackoff, isTxboxError, type Session } from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import { pause } from '@txbox/core/internal'
import type { Guard } from '../options/consumer.ts'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import type { DeliverySlot } from '../receive/delivery-slot.ts'
import { guarded, isStale } from './guarded.ts'
import type { HeldDeliveries } from '../receive/held-deliveries.ts'
import type { HandlerCall } from './handler-call.ts'
import { handlerContext } from './handler-context.ts'
import { STALE, outcomeOf, type Work, type WorkResult } from './work.ts'

/** The maximum number of attempts of a transaction that the database asks to repeat. */
const ATTEMPTS = 5
const PAUSES = exponentialBackoff({ minMs: 10, maxMs: 1000, attempts: ATTEMPTS })

type Handler = (tx: unknown, message: unknown, context: unknown) => unknown

/**
 * Effect once without a claim: the first statement of the handler's transaction settles the delivery, so that only one of
 * two consumers that received the same message can commit.
 */
export class SettlingWork implements Work {
  readonly isAllOrNothing = true
  readonly #ports: ConnectedPorts
  readonly #guard: Guard<unknown> | undefined
  readonly #settings: ConsumerSettings
  readonly #held: HeldDeliveries
  readonly #handler: Handler

  constructor(
    { ports, guard }: { readonly ports: ConnectedPorts; readonly guard: Guard<unknown> | undefined },
    settings: ConsumerSettings,
    held: HeldDeliveries,
  ) {
    this.#ports = ports
    this.#guard = guard
    this.#settings = settings
    this.#held = held
    this.#handler = settings.handler as unknown as Handler
  }

  async alone(slot: DeliverySlot, call: HandlerCall): Promise<WorkResult> {
    const isBatch = this.#settings.batch !== undefined
    const result = await this.#transact([slot], call, async (tx, attempt) => {
      const { message } = slot
      if (await isStale(this.#guard, tx, message)) return STALE
      const context = handlerContext(slot, this.#settings, call, { attempt })
      return isBatch ? this.#handler(tx, [message], [context]) : this.#handler(tx, message, context)
    })
    return { outcome: outcomeOf(result) }
  }

  together(slots: readonly DeliverySlot[], call: HandlerCall): readonly Promise<WorkResult>[] {
    const done = this.#transact(slots, call, (tx, attempt) => {
      const messages = slots.map(({ message }) => message)
      const contexts = slots.map((slot) => handlerContext(slot, this.#settings, call, { attempt }))
      return guarded(this.#guard, tx, { messages, contexts }, this.#handler)
    })
    return slots.map(async ({ message }): Promise<WorkResult> => {
      return { outcome: (await done).has(message) ? 'stale' : 'processed' }
    })
  }

  async #transact<R>(
    slots: readonly DeliverySlot[],
    call: HandlerCall,
    work: (tx: unknown, attempt: number) => Promise<R>,
  ): Promise<R> {
    for (let attempt = 1; ; attempt++) {
      try {
        const result = await this.#ports.transact(
          async (tx, session) => {
            await this.#settleInSession(slots, session)
            return this.#ports.watch(session, async () => {
              await this.#settleIn(slots, tx)
              call.hasWritten = true
              return work(tx, attempt)
            })
          },
          { signal: call.givenUp },
        )
        for (const slot of slots) {
          slot.isSettled = true
          slot.delivery.committed?.()
          this.#held.stopHeartbeat(slot)
        }
        return result
      } catch (error) {
        if (attempt === ATTEMPTS || call.givenUp.aborted || !this.#ports.isConflict(error)) throw error
        await pause(PAUSES.delayMs(attempt, Math.random), call.givenUp)
        call.givenUp.throwIfAborted()
      } finally {
        for (const slot of slots) this.#held.pauseHeartbeat(slot, false)
      }
    }
  }

  /**
   * Settles all deliveries at the same time, so that the source can settle them with one statement. Waits for all of them
   * even if one fails: the transaction must not end while settlements are in flight.
   */
  async #settleInSession(slots: readonly DeliverySlot[], session: Session): Promise<void> {
    const settled = await Promise.allSettled(
      slots.map((slot) => this.#settle(slot, slot.delivery.settleInSession?.(session))),
    )
    const failed = settled.find(({ status }) => status === 'rejected')
    if (failed?.status === 'rejected') throw failed.reason
  }

  /** Settles the deliveries that have only `settleIn`. */
  async #settleIn(slots: readonly DeliverySlot[], tx: unknown): Promise<void> {
    for (const slot of slots) {
      if (slot.delivery.settleInSession === undefined) await this.#settle(slot, slot.delivery.settleIn?.(tx))
    }
  }

  async #settle(slot: DeliverySlot, settlement: Promise<void> | undefined): Promise<void> {
    try {
      await settlement
    } catch (error) {
      if (isTxboxError(error) && error.code === 'TXBOX_RECEIPT_EXPIRED') slot.isExpired = true
      throw error
    }
    if (settlement !== undefined) this.#held.pauseHeartbeat(slot, true)
  }
}
