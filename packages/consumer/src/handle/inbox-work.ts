import type { InboxContext, InboxMessage, RunsMessages } from '@txbox/core'
import type { Guard } from '../options/consumer.ts'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import type { DeliverySlot } from '../receive/delivery-slot.ts'
import { guarded, isStale } from './guarded.ts'
import type { HandlerCall } from './handler-call.ts'
import { consumerContext } from './handler-context.ts'
import { STALE, outcomeOf, type Work, type WorkResult } from './work.ts'

type Handler = (tx: unknown, message: unknown, context: unknown) => unknown

/** Effect once: the claim of an inbox and the handler's work commit together. */
export class InboxWork implements Work {
  readonly isAllOrNothing = true
  readonly #inbox: RunsMessages<unknown>
  readonly #guard: Guard<unknown> | undefined
  readonly #handler: Handler
  readonly #isBatch: boolean

  constructor(
    { inbox, guard }: { inbox: RunsMessages<unknown>; guard: Guard<unknown> | undefined },
    { handler, batch }: Pick<ConsumerSettings, 'handler' | 'batch'>,
  ) {
    this.#inbox = inbox
    this.#guard = guard
    this.#handler = handler as unknown as Handler
    this.#isBatch = batch !== undefined
  }

  async alone(slot: DeliverySlot, call: HandlerCall): Promise<WorkResult> {
    const handle = async (tx: unknown, message: InboxMessage, given: InboxContext): Promise<unknown> => {
      call.hasWritten = true
      if (await isStale(this.#guard, tx, message)) return STALE
      const context = consumerContext(given, slot, call.signal)
      return this.#isBatch ? this.#handler(tx, [message], [context]) : this.#handler(tx, message, context)
    }
    const outcome = await this.#inbox.run(slot.message, handle, { signal: call.givenUp })
    return { outcome: outcome.status === 'processed' ? outcomeOf(outcome.result) : outcome.status }
  }

  together(slots: readonly DeliverySlot[], call: HandlerCall): readonly Promise<WorkResult>[] {
    const done = this.#inbox.runBatch(
      slots.map(({ message }) => message),
      async (tx, fresh, given) => {
        call.hasWritten = true
        const slotOf = new Map(slots.map((slot) => [slot.message, slot]))
        const contexts = fresh.map((message, n) =>
          consumerContext(given[n]!, slotOf.get(message)!, call.signal),
        )
        return guarded(this.#guard, tx, { messages: fresh, contexts }, this.#handler)
      },
      { signal: call.givenUp },
    )
    return slots.map(async ({ message }, n): Promise<WorkResult> => {
      const { outcomes, result: stale } = await done
      const { status } = outcomes[n]!
      if (status !== 'processed') return { outcome: status }
      return { outcome: stale?.has(message) === true ? 'stale' : 'processed' }
    })
  }
}
