import type { ConsumerContext } from '../options/consumer.ts'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'
import type { HandlerCall } from './handler-call.ts'
import { handlerContext } from './handler-context.ts'
import { resultOf, type Handler, type Work, type WorkResult } from './work.ts'

/** Work without a transaction of txbox: the handler's promise, or its acknowledgement, decides the result. */
export class PlainWork implements Work {
  readonly isAllOrNothing = false
  readonly #settings: ConsumerSettings
  readonly #handler: Handler
  readonly #isManual: boolean

  constructor({ isManual }: { isManual: boolean }, settings: ConsumerSettings) {
    this.#settings = settings
    this.#handler = settings.handler as unknown as Handler
    this.#isManual = isManual
  }

  alone(held: HeldDelivery, call: HandlerCall): Promise<WorkResult> {
    const { message } = held
    if (this.#settings.batch !== undefined) return this.together([held], call)[0]!
    if (!this.#isManual) {
      const running = this.#handler(message, handlerContext(held, this.#settings, call))
      return call.orGivenUp(running, resultOf)
    }
    return this.#acknowledged([held], call, ([context]) => this.#handler(message, context))[0]!
  }

  together(batch: readonly HeldDelivery[], call: HandlerCall): readonly Promise<WorkResult>[] {
    const messages = batch.map(({ message }) => message)
    return this.#acknowledged(batch, call, (contexts) => this.#handler(messages, contexts))
  }

  /**
   * Calls the handler. The first result of a message counts. When the handler returns, messages that were not acknowledged count
   * as handled, except with manual acknowledgement. When the handler throws, they count as failed.
   */
  #acknowledged(
    batch: readonly HeldDelivery[],
    call: HandlerCall,
    handler: (contexts: readonly ConsumerContext[]) => unknown,
  ): readonly Promise<WorkResult>[] {
    const results = batch.map(() => Promise.withResolvers<WorkResult>())
    const running = async (): Promise<void> => {
      try {
        const contexts = batch.map((held, n) => {
          const ack = acknowledging(results[n]!, call)
          return handlerContext(held, this.#settings, call, 1, ack)
        })
        const result = resultOf(await handler(contexts))
        if (!this.#isManual) for (const { resolve } of results) resolve(result)
      } catch (error) {
        for (const { reject } of results) reject(error)
      }
      call.returned()
    }
    void running()
    return results.map(({ promise }) => call.orGivenUp(promise, (result) => result))
  }
}

/** The function by which a handler settles one message. */
function acknowledging(
  { resolve, reject }: PromiseWithResolvers<WorkResult>,
  call: HandlerCall,
): ConsumerContext['ack'] {
  return (elapsedMs, error) => {
    if (error !== undefined && error !== null) reject(error)
    else resolve({ outcome: 'processed', elapsedMs: elapsedMs ?? call.durationMs })
  }
}
