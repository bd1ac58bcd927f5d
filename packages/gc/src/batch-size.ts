/** A batch that takes longer than this holds its locks long enough to delay other transactions. */
const SLOW_BATCH_MS = 1000

/** The maximum number of rows in a batch. Halved after a slow batch, and doubled again with each run. */
export class BatchSize {
  readonly #max: number
  #limit: number

  constructor(max: number) {
    this.#max = max
    this.#limit = max
  }

  get limit(): number {
    return this.#limit
  }

  /** Begins a run with twice the last limit, because the cause of slow batches may be gone. */
  begin(): void {
    this.#limit = Math.min(this.#max, this.#limit * 2)
  }

  halve(): void {
    this.#limit = Math.max(1, Math.floor(this.#limit / 2))
  }

  took(ms: number): void {
    if (ms > SLOW_BATCH_MS) this.halve()
  }
}
