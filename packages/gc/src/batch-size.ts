/** A batch that takes longer holds locks for longer than anybody should notice. */
const TOO_LONG_MS = 1000

/** How many rows a batch may remove: halved by what takes too long, and doubled again from run to run. */
export class BatchSize {
  readonly #most: number
  #limit: number

  constructor(most: number) {
    this.#most = most
    this.#limit = most
  }

  get limit(): number {
    return this.#limit
  }

  /** A new run: what was slow may have been a bad hour. */
  begin(): void {
    this.#limit = Math.min(this.#most, this.#limit * 2)
  }

  halve(): void {
    this.#limit = Math.max(1, Math.floor(this.#limit / 2))
  }

  took(ms: number): void {
    if (ms > TOO_LONG_MS) this.halve()
  }
}
