import type { ConsumerContext } from '../options/consumer.ts'
import type { ConsumerSettings } from '../options/consumer-settings.ts'
import type { DeliverySlot } from '../receive/delivery-slot.ts'
import type { HandlerCall } from './handler-call.ts'
import { handlerContext } from './handler-context.ts'
import { outcomeOf, type Work, type WorkResult } from './work.ts'

type Handler = (message: unknown, context: unknown) => unknown

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

  async alone(slot: DeliverySlot, call: HandlerCall, returned: () => void): Promise<WorkResult> {
    if (this.#settings.batch !== undefined) return this.together([slot], call, returned)[0]!
    if (!this.#isManual) {
      const running = this.#handler(slot.message, this.#context(slot, call))
      return { outcome: outcomeOf(await call.orGivenUp(running)) }
    }
    const acknowledgement = new Acknowledgement(call)
    const context = this.#context(slot, call, acknowledgement.ack)
    this.#call(() => this.#handler(slot.message, context), [acknowledgement], returned)
    return call.orGivenUp(acknowledgement.promise)
  }

  together(
    slots: readonly DeliverySlot[],
    call: HandlerCall,
    returned: () => void,
  ): readonly Promise<WorkResult>[] {
    const acknowledgements = slots.map(() => new Acknowledgement(call))
    const contexts = slots.map((slot, n) => this.#context(slot, call, acknowledgements[n]!.ack))
    const messages = slots.map(({ message }) => message)
    this.#call(() => this.#handler(messages, contexts), acknowledgements, returned)
    return acknowledgements.map(({ promise }) => call.orGivenUp(promise))
  }

  /**
   * Calls the handler. When the handler returns, its messages that were not acknowledged count as handled, except with manual
   * acknowledgement. When the handler throws, they count as failed.
   */
  #call(handler: () => unknown, acknowledgements: readonly Acknowledgement[], returned: () => void): void {
    const running = (async () => handler())()
    running
      .then((result) => {
        if (!this.#isManual) for (const one of acknowledgements) one.handled(result)
      })
      .catch((error: unknown) => {
        for (const one of acknowledgements) one.failed(error)
      })
      .finally(returned)
  }

  #context(slot: DeliverySlot, call: HandlerCall, ack?: ConsumerContext['ack']): ConsumerContext {
    return handlerContext(slot, this.#settings, call, ack === undefined ? {} : { ack })
  }
}

/** The result of one message. The first call of a method decides. */
class Acknowledgement {
  readonly promise: Promise<WorkResult>
  readonly #resolve: (result: WorkResult) => void
  readonly #reject: (error: unknown) => void
  readonly #call: HandlerCall

  constructor(call: HandlerCall) {
    const { promise, resolve, reject } = Promise.withResolvers<WorkResult>()
    this.promise = promise
    this.#resolve = resolve
    this.#reject = reject
    this.#call = call
    // The handler may fail after the call was given up, which must not count as an unhandled rejection.
    promise.catch(() => undefined)
  }

  readonly ack = (elapsedMs?: number, error?: unknown): void => {
    if (error === undefined || error === null) {
      this.#resolve({ outcome: 'processed', elapsedMs: elapsedMs ?? this.#call.durationMs })
    } else this.#reject(error)
  }

  handled(result: unknown): void {
    this.#resolve({ outcome: outcomeOf(result) })
  }

  failed(error: unknown): void {
    this.#reject(error)
  }
}
