import { LONGEST_TIMER_MS, LazyAbort } from '@txbox/core/internal'
import type { MessageIdentity } from '@txbox/core'
import { HandleTimeoutError } from '../errors/errors.ts'

/** A delivery that the handler was called with. */
interface CalledDelivery {
  readonly message: MessageIdentity
  readonly isLost: boolean
}

/** One call of the handler, with its time limit. */
export class HandlerCall {
  readonly startedAt = performance.now()
  /** Whether the database has accepted a write in the transaction of the handler, before the handler was called. */
  hasWritten = false
  /** The handler's signal. It is also aborted when the broker has taken back all deliveries of the call. */
  readonly #handlerAbort = new LazyAbort()
  /** Aborted to roll back the transaction. */
  readonly #givenUp = new LazyAbort()
  readonly #timer: NodeJS.Timeout | undefined
  readonly #slots: readonly CalledDelivery[]
  /** The functions that reject the promises of `orGivenUp`. */
  readonly #waiting: ((reason: unknown) => void)[] = []
  readonly #whenGivenUp: () => void

  /** @param whenGivenUp is called when the call is given up: the result of the handler is ignored from then on. */
  constructor(slots: readonly CalledDelivery[], timeoutMs: number, whenGivenUp: () => void) {
    this.#slots = slots
    this.#whenGivenUp = whenGivenUp
    if (timeoutMs > LONGEST_TIMER_MS) return
    this.#timer = setTimeout(() => this.giveUp(timedOut(slots, timeoutMs)), timeoutMs)
  }

  get signal(): AbortSignal {
    return this.#handlerAbort.signal
  }

  get givenUp(): AbortSignal {
    return this.#givenUp.signal
  }

  get isGivenUp(): boolean {
    return this.#givenUp.isAborted
  }

  get durationMs(): number {
    return performance.now() - this.startedAt
  }

  giveUp(reason: unknown): void {
    if (this.isGivenUp) return
    this.#handlerAbort.abort(reason)
    this.#givenUp.abort(reason)
    this.#whenGivenUp()
    for (const reject of this.#waiting) reject(reason)
  }

  /** Called when the broker has taken back one of the deliveries. */
  deliveryLost(): void {
    if (this.#slots.every((slot) => slot.isLost)) {
      this.#handlerAbort.abort(new DOMException('The broker has taken the delivery back.', 'AbortError'))
    }
  }

  /** Waits for work that cannot be rolled back, and rejects as soon as the call is given up. */
  orGivenUp<T>(work: T | PromiseLike<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.isGivenUp) reject(this.#givenUp.reason)
      this.#waiting.push(reject)
      Promise.resolve(work).then(resolve, reject)
    })
  }

  end(): void {
    clearTimeout(this.#timer)
  }
}

function timedOut(slots: readonly CalledDelivery[], timeoutMs: number): HandleTimeoutError {
  const ids = slots.slice(0, 5).map(({ message }) => message.id)
  const more = slots.length > ids.length ? ` and ${slots.length - ids.length} more` : ''
  return new HandleTimeoutError(
    `Handling message ${ids.join(', ')}${more} took longer than ${timeoutMs} ms (handleTimeoutMs). Its work does not count.`,
  )
}
