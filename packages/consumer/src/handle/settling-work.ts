import { exponentialBackoff, isTxboxError, type Session } from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import { pause } from '@txbox/core/internal'
import type { Guard } from '../options/consumer.ts'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'
import { guarded, isStale } from './guarded.ts'
import type { HandlerCall } from './handler-call.ts'
import { handlerContext } from './handler-context.ts'
import { STALE, resultOf, type Handler, type Work, type WorkResult } from './work.ts'

/** The maximum number of attempts of a transaction that the database asks to repeat. */
const ATTEMPTS = 5
const PAUSES = exponentialBackoff({ minMs: 10, maxMs: 1000, attempts: ATTEMPTS })

/**
 * Effect once without a claim: the first statement of the handler's transaction settles the delivery, so that only one of
 * two consumers that received the same message can commit.
 */
export class SettlingWork implements Work {
  readonly isAllOrNothing = true
  readonly #ports: ConnectedPorts
  readonly #guard: Guard<unknown> | undefined
  readonly #settings: ConsumerSettings
  readonly #handler: Handler

  constructor(
    { ports, guard }: Extract<ConsumerSettings['work'], { kind: 'database' }>,
    settings: ConsumerSettings,
  ) {
    this.#ports = ports
    this.#guard = guard
    this.#settings = settings
    this.#handler = settings.handler as unknown as Handler
  }

  async alone(held: HeldDelivery, call: HandlerCall): Promise<WorkResult> {
    const isBatch = this.#settings.batch !== undefined
    const result = await this.#transact([held], call, async (tx, attempt) => {
      const { message } = held
      if (await isStale(this.#guard, tx, message)) return STALE
      const context = handlerContext(held, this.#settings, call, attempt)
      return isBatch ? this.#handler(tx, [message], [context]) : this.#handler(tx, message, context)
    })
    return resultOf(result)
  }

  together(batch: readonly HeldDelivery[], call: HandlerCall): readonly Promise<WorkResult>[] {
    const done = this.#transact(batch, call, (tx, attempt) => {
      const all = batch.map((held) => ({
        held,
        context: handlerContext(held, this.#settings, call, attempt),
      }))
      return guarded(this.#guard, tx, all, this.#handler)
    })
    return batch.map(async (held): Promise<WorkResult> => {
      return { outcome: (await done).has(held) ? 'stale' : 'processed' }
    })
  }

  async #transact<R>(
    batch: readonly HeldDelivery[],
    call: HandlerCall,
    work: (tx: unknown, attempt: number) => Promise<R>,
  ): Promise<R> {
    for (let attempt = 1; ; attempt++) {
      try {
        const result = await this.#ports.transact(
          async (tx, session) => {
            await this.#settleInSession(batch, session)
            return this.#ports.watch(session, async () => {
              for (const held of batch) {
                const { delivery } = held
                if (delivery.settleInSession === undefined) await this.#settle(held, delivery.settleIn?.(tx))
              }
              call.hasWritten = true
              return work(tx, attempt)
            })
          },
          { signal: call.givenUp },
        )
        for (const held of batch) {
          held.isSettled = true
          held.delivery.committed?.()
          held.heartbeat?.stop()
        }
        return result
      } catch (error) {
        if (attempt === ATTEMPTS || call.givenUp.aborted || !this.#ports.isConflict(error)) throw error
        const delayMs = PAUSES.delayMs(attempt, Math.random)
        for (const held of batch) held.reportConflict(error, delayMs)
        await pause(delayMs, call.givenUp)
        call.givenUp.throwIfAborted()
        for (const held of batch) held.renewMessage()
      } finally {
        for (const held of batch) held.heartbeat?.pause(false)
      }
    }
  }

  /**
   * Settles all deliveries at the same time, so that the source can settle them with one statement. Waits for all of them
   * even if one fails: the transaction must not end while settlements are in flight.
   */
  async #settleInSession(batch: readonly HeldDelivery[], session: Session): Promise<void> {
    const settled = await Promise.allSettled(
      batch.map((held) => this.#settle(held, held.delivery.settleInSession?.(session))),
    )
    const failed = settled.find(({ status }) => status === 'rejected')
    if (failed?.status === 'rejected') throw failed.reason
  }

  async #settle(held: HeldDelivery, settlement: Promise<void> | undefined): Promise<void> {
    try {
      await settlement
    } catch (error) {
      if (isTxboxError(error) && error.code === 'TXBOX_RECEIPT_EXPIRED') held.isExpired = true
      throw error
    }
    if (settlement !== undefined) held.heartbeat?.pause(true)
  }
}
