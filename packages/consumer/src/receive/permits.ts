import { LinkedQueue } from '../batcher/linked-queue.ts'
import type { Outage } from './outage.ts'

/** A delivery, or a batch, that waits for a permit. */
interface Applicant {
  /** @returns `false` if the applicant no longer waits. */
  proceed(): boolean
}

/**
 * Decides when the next handler may begin, in the order in which the deliveries have applied: not while enough handlers run,
 * and not while the consumer is paused, stops, or waits for the end of an outage.
 */
export class Permits {
  readonly #outage: Outage
  /** Called when a handler is free and no delivery waits for one. */
  readonly #idle: () => void
  /** Whether no handler may begin because the consumer has no room for another failure. */
  readonly #isBlocked: () => boolean
  readonly #waiting = new LinkedQueue<Applicant>()
  #concurrency: number
  #running = 0
  #isPaused = false
  #isClosed = false
  #timer: NodeJS.Timeout | undefined

  constructor(concurrency: number, outage: Outage, idle: () => void, isBlocked: () => boolean) {
    this.#concurrency = concurrency
    this.#outage = outage
    this.#idle = idle
    this.#isBlocked = isBlocked
  }

  get running(): number {
    return this.#running
  }

  get isIdle(): boolean {
    return this.#running < this.#concurrency && this.#waiting.length === 0
  }

  get concurrency(): number {
    return this.#concurrency
  }

  set concurrency(concurrency: number) {
    this.#concurrency = concurrency
    this.#grant()
  }

  get isPaused(): boolean {
    return this.#isPaused
  }

  set isPaused(isPaused: boolean) {
    this.#isPaused = isPaused
    this.#grant()
  }

  /** @returns whether the applicant has a permit at once. Otherwise it proceeds when it has one. */
  take(applicant: Applicant): boolean {
    if (this.#waiting.length === 0 && this.#isFree) {
      this.#running += 1
      return true
    }
    this.#waiting.push(applicant)
    return false
  }

  readonly release = (): void => {
    this.#running -= 1
    this.#grant()
  }

  /** Must be called when the consumer is no longer blocked. */
  unblocked(): void {
    this.#grant()
  }

  /** Lets no handler begin from now on. */
  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  get #isFree(): boolean {
    if (this.#running >= this.#concurrency || this.#isPaused || this.#isClosed || this.#isBlocked())
      return false
    const waitMs = this.#outage.waitMs()
    if (waitMs > 0) this.#grantIn(waitMs)
    return waitMs <= 0
  }

  #grant(): void {
    while (this.#waiting.length > 0 && this.#isFree) {
      if (this.#waiting.shift()?.proceed() === true) this.#running += 1
    }
    if (this.isIdle) this.#idle()
  }

  #grantIn(ms: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#grant()
    }, Math.ceil(ms))
  }
}
