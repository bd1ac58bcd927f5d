import type { Loss } from '@txbox/core'
import { LONGEST_TIMER_MS, LazyAbort } from '@txbox/core/internal'
import { HandleTimeoutError } from '../errors/errors.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'

/** One call of the handler, with its time limit. */
export class HandlerCall {
  readonly startedAt = performance.now()
  /** Whether the database has accepted a write in the transaction of the handler, before the handler was called. */
  hasWritten = false
  /** Whether a statement of txbox before or after the handler runs: if the statement fails, no message is at fault. */
  isOwnStatement = false
  /** What the failed transaction of the call has lost, once that was asked. */
  loss: Promise<Loss> | undefined
  /** The handler's signal. It is also aborted when the broker has taken back all deliveries of the call. */
  readonly #handlerAbort = new LazyAbort()
  /** Aborted to roll back the transaction. */
  readonly #givenUp = new LazyAbort()
  readonly #timer: NodeJS.Timeout | undefined
  readonly #batch: readonly HeldDelivery[]
  /** The functions that reject the promises of `orGivenUp`. */
  #waiting: ((reason: unknown) => void)[] | undefined
  #unfinished: number
  #whenReturned: (() => void) | undefined

  /** @param whenReturned is called once, when the handler has returned: at the latest when all deliveries have left. */
  constructor(batch: readonly HeldDelivery[], timeoutMs: number, whenReturned?: () => void) {
    this.#batch = batch
    this.#unfinished = batch.length
    this.#whenReturned = whenReturned
    for (const held of batch) {
      held.renewMessage()
      held.call = this
    }
    if (timeoutMs > LONGEST_TIMER_MS) return
    this.#timer = setTimeout(() => this.giveUp(timedOut(batch, timeoutMs)), timeoutMs)
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

  /** The result of the handler is ignored from now on. */
  giveUp(reason: unknown): void {
    if (this.isGivenUp) return
    clearTimeout(this.#timer)
    this.#handlerAbort.abort(reason)
    this.#givenUp.abort(reason)
    // If the library hides its connection, the transaction may still run. Deliveries that have left may wait for their retry.
    for (const held of this.#batch) if (held.call === this) held.heartbeat?.pause(true)
    for (const reject of this.#waiting ?? []) reject(reason)
  }

  /** Called when the broker has taken back one of the deliveries. */
  deliveryLost(): void {
    if (this.#batch.every((held) => held.isLost)) {
      this.#handlerAbort.abort(new DOMException('The broker has taken the delivery back.', 'AbortError'))
    }
  }

  /** Waits for work that cannot be rolled back, and rejects as soon as the call is given up. */
  orGivenUp<T, R>(work: T | PromiseLike<T>, resultOf: (result: Awaited<T>) => R): Promise<R> {
    return new Promise((resolve, reject) => {
      if (this.isGivenUp) reject(this.#givenUp.reason)
      if (this.#waiting === undefined) this.#waiting = [reject]
      else this.#waiting.push(reject)
      Promise.resolve(work).then((result) => resolve(resultOf(result)), reject)
    })
  }

  returned(): void {
    const whenReturned = this.#whenReturned
    this.#whenReturned = undefined
    whenReturned?.()
  }

  /** Called when a delivery has its verdict. */
  leave(held: HeldDelivery): void {
    held.call = undefined
    held.heartbeat?.pause(false)
    this.#unfinished -= 1
    if (this.#unfinished > 0) return
    clearTimeout(this.#timer)
    this.returned()
  }
}

function timedOut(batch: readonly HeldDelivery[], timeoutMs: number): HandleTimeoutError {
  const ids = batch.slice(0, 5).map(({ message }) => message.id)
  const more = batch.length > ids.length ? ` and ${batch.length - ids.length} more` : ''
  return new HandleTimeoutError(
    `Handling message ${ids.join(', ')}${more} took longer than ${timeoutMs} ms (handleTimeoutMs). Its work does not count.`,
  )
}
