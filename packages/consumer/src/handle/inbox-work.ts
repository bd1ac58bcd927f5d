import type { InboxContext, InboxMessage, RunsMessages, RunsMessagesOptions } from '@txbox/core'
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
    const handle = async (tx: unknown, _: InboxMessage, given: InboxContext): Promise<unknown> => {
      call.hasWritten = true
      // There is no claim: the message is no duplicate. The claim that was just made is rolled back.
      if (held.refusal !== undefined) throw held.refusal
      if (given.attempt > 1) held.renewMessage()
      const { message } = held
      if (await isStale(this.#guard, tx, message)) return STALE
      const context = consumerContext(given, held, call.signal)
      return this.#isBatch ? this.#handler(tx, [message], [context]) : this.#handler(tx, message, context)
    }
    const outcome = await this.#inbox.run(held.message, handle, optionsOf([held], call))
    return outcome.status === 'processed' ? resultOf(outcome.result) : { outcome: outcome.status }
  }

  together(batch: readonly HeldDelivery[], call: HandlerCall): readonly Promise<WorkResult>[] {
    // The inbox returns the messages that it was given. In a later attempt, their deliveries have other messages.
    const heldOf = new Map(batch.map((held) => [held.message, held]))
    // The async function turns an error that the inbox throws into a rejection.
    const run = async () =>
      this.#inbox.runBatch(
        [...heldOf.keys()],
        async (tx, messages, given) => {
          call.hasWritten = true
          const refused = messages.find((message) => heldOf.get(message)?.refusal !== undefined)
          if (refused !== undefined) throw heldOf.get(refused)!.refusal!
          const fresh = messages.map((message, n) => {
            const held = heldOf.get(message)!
            if (given[n]!.attempt > 1) held.renewMessage()
            return { held, context: consumerContext(given[n]!, held, call.signal) }
          })
          return guarded(this.#guard, tx, fresh, this.#handler)
        },
        optionsOf(batch, call),
      )
    const done = run()
    return batch.map(async (held, n): Promise<WorkResult> => {
      const { outcomes, result: stale } = await done
      const { status } = outcomes[n]!
      if (status !== 'processed') return { outcome: status }
      return { outcome: stale?.has(held) === true ? 'stale' : 'processed' }
    })
  }
}

/** The consumer itself renews the messages: its sources decode them again. */
function optionsOf(batch: readonly HeldDelivery[], call: HandlerCall): RunsMessagesOptions {
  return {
    signal: call.givenUp,
    copy: false,
    onConflict: (error, delayMs) => {
      for (const held of batch) held.reportConflict(error, delayMs)
    },
  }
}
