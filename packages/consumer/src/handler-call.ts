import { LONGEST_TIMER_MS } from '@txbox/core/internal'
import type { DeliverySlot } from './delivery-slot.ts'
import { HandleTimeoutError } from './errors.ts'

/** One call of the handler, with its time limit. */
export class HandlerCall {
  readonly startedAt = performance.now()
  /** The handler's signal: aborted also when the broker has taken all deliveries of the call back. */
  readonly #noticed = new AbortController()
  /** Rolls the transaction back. */
  readonly #givenUp = new AbortController()
  readonly #timer: NodeJS.Timeout | undefined
  readonly #slots: readonly DeliverySlot[]

  constructor(slots: readonly DeliverySlot[], timeoutMs: number) {
    this.#slots = slots
    for (const { delivery } of slots) delivery.lost.addEventListener('abort', this.#lost)
    if (timeoutMs > LONGEST_TIMER_MS) return
    this.#timer = setTimeout(() => this.giveUp(timedOut(slots, timeoutMs)), timeoutMs)
  }

  get signal(): AbortSignal {
    return this.#noticed.signal
  }

  get givenUp(): AbortSignal {
    return this.#givenUp.signal
  }

  get durationMs(): number {
    return performance.now() - this.startedAt
  }

  giveUp(reason: unknown): void {
    this.#noticed.abort(reason)
    this.#givenUp.abort(reason)
  }

  /** Waits for work that cannot be rolled back, but no longer than until the call is given up. */
  async orGivenUp<T>(work: Promise<T>): Promise<T> {
    const aborted = Promise.withResolvers<never>()
    const abort = (): void => aborted.reject(this.#givenUp.signal.reason)
    this.#givenUp.signal.addEventListener('abort', abort, { once: true })
    if (this.#givenUp.signal.aborted) abort()
    try {
      return await Promise.race([work, aborted.promise])
    } finally {
      this.#givenUp.signal.removeEventListener('abort', abort)
    }
  }

  end(): void {
    clearTimeout(this.#timer)
    for (const { delivery } of this.#slots) delivery.lost.removeEventListener('abort', this.#lost)
  }

  readonly #lost = (): void => {
    if (this.#slots.every((slot) => slot.isLost)) {
      this.#noticed.abort(new DOMException('The broker has taken the delivery back.', 'AbortError'))
    }
  }
}

function timedOut(slots: readonly DeliverySlot[], timeoutMs: number): HandleTimeoutError {
  const ids = slots.slice(0, 5).map(({ message }) => message.id)
  const more = slots.length > ids.length ? ` and ${slots.length - ids.length} more` : ''
  return new HandleTimeoutError(
    `Handling message ${ids.join(', ')}${more} took longer than ${timeoutMs} ms (handleTimeoutMs). Its work does not count.`,
  )
}
