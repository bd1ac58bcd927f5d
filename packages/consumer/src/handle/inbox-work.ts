import type { InboxContext, InboxMessage, RunsMessages } from '@txbox/core'
import type { Guard } from '../options/consumer.ts'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'
import { guarded, isStale } from './guarded.ts'
import type { HandlerCall } from './handler-call.ts'
import { consumerContext } from './handler-context.ts'
import { STALE, resultOf, type Handler, type Work, type WorkResult } from './work.ts'

/** Effect once: the claim of an inbox and the handler's work commit together. */
export class InboxWork implements Work {
  readonly isAllOrNothing = true
  readonly #inbox: RunsMessages<unknown>
  readonly #guard: Guard<unknown> | undefined
  readonly #handler: Handler
  readonly #isBatch: boolean

  constructor(
    { inbox, guard }: Extract<ConsumerSettings['work'], { kind: 'inbox' }>,
    { handler, batch }: ConsumerSettings,
  ) {
    this.#inbox = inbox
    this.#guard = guard
    this.#handler = handler as unknown as Handler
    this.#isBatch = batch !== undefined
  }

  async alone(held: HeldDelivery, call: HandlerCall): Promise<WorkResult> {
    const handle = async (tx: unknown, message: InboxMessage, given: InboxContext): Promise<unknown> => {
      call.hasWritten = true
      // There is no claim: the message is no duplicate. The claim that was just made is rolled back.
      if (held.refusal !== undefined) throw held.refusal
      if (await isStale(this.#guard, tx, message)) return STALE
      const context = consumerContext(given, held, call.signal)
      return this.#isBatch ? this.#handler(tx, [message], [context]) : this.#handler(tx, message, context)
    }
    const outcome = await this.#inbox.run(held.message, handle, { signal: call.givenUp })
    return outcome.status === 'processed' ? resultOf(outcome.result) : { outcome: outcome.status }
  }

  together(batch: readonly HeldDelivery[], call: HandlerCall): readonly Promise<WorkResult>[] {
    // The async function turns an error that the inbox throws into a rejection.
    const run = async () =>
      this.#inbox.runBatch(
        batch.map(({ message }) => message),
        async (tx, fresh, given) => {
          call.hasWritten = true
          const heldOf = new Map(batch.map((held) => [held.message, held]))
          const refused = fresh.find((message) => heldOf.get(message)?.refusal !== undefined)
          if (refused !== undefined) throw heldOf.get(refused)!.refusal!
          const contexts = fresh.map((message, n) =>
            consumerContext(given[n]!, heldOf.get(message)!, call.signal),
          )
          return guarded(this.#guard, tx, { messages: fresh, contexts }, this.#handler)
        },
        { signal: call.givenUp },
      )
    const done = run()
    return batch.map(async ({ message }, n): Promise<WorkResult> => {
      const { outcomes, result: stale } = await done
      const { status } = outcomes[n]!
      if (status !== 'processed') return { outcome: status }
      return { outcome: stale?.has(message) === true ? 'stale' : 'processed' }
    })
  }
}
