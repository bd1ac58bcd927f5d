import type { Outage } from './outage.ts'

/** Decides whether handlers may begin: not while the consumer is paused, stops, or waits for the end of an outage. */
export class Gate {
  readonly #outage: Outage
  readonly #opened: () => void
  #timer: NodeJS.Timeout | undefined
  #isPaused = false
  #isClosed = false

  /** @param opened is called when handlers may begin again. */
  constructor(outage: Outage, opened: () => void) {
    this.#outage = outage
    this.#opened = opened
  }

  get isPaused(): boolean {
    return this.#isPaused
  }

  set isPaused(isPaused: boolean) {
    this.#isPaused = isPaused
    if (!isPaused) this.#opened()
  }

  get isOpen(): boolean {
    if (this.#isPaused || this.#isClosed) return false
    const waitMs = this.#outage.waitMs()
    if (waitMs > 0) this.#openIn(waitMs)
    return waitMs <= 0
  }

  /** Lets no handler begin from now on. */
  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #openIn(waitMs: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#opened()
    }, Math.ceil(waitMs))
  }
}
