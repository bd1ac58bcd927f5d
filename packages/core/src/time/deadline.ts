import { within } from './within.ts'

/** A deadline that can be brought forward, and never back. Before the first call of `within` there is none. */
export class Deadline {
  readonly passed: Promise<void>
  readonly #pass: () => void
  #at = Infinity
  #timer: NodeJS.Timeout | undefined
  #isOver = false

  constructor() {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.passed = promise
    this.#pass = resolve
  }

  get leftMs(): number {
    return Math.max(0, this.#at - performance.now())
  }

  /** Sets the deadline, unless an earlier one is set already, or nobody waits any more. In milliseconds from now. */
  within(ms: number): void {
    const at = performance.now() + ms
    if (at >= this.#at || this.#isOver) return
    this.#at = at
    clearTimeout(this.#timer)
    this.#timer = setTimeout(this.#pass, ms)
  }

  /** Waits for `work`, but not longer than until `graceMs` after the deadline; then the result is `undefined`. */
  waitFor<T>(work: Promise<T>, graceMs?: number): Promise<T | undefined> {
    const passed = this.passed.then(() =>
      graceMs === undefined ? undefined : within(work, graceMs, () => undefined),
    )
    return Promise.race([work, passed])
  }

  /** Must be called when nobody waits for the deadline any more, so that its timer does not keep the process alive. */
  clear(): void {
    this.#isOver = true
    clearTimeout(this.#timer)
  }
}
