/** Reads something at most once in `everyMs`, and never twice at the same time: calls in the meantime get the same answer. */
export class CachedReading<T> {
  readonly #read: () => Promise<T>
  readonly #everyMs: number
  #last: { readonly begunAt: number; readonly value: Promise<T> } | undefined
  #isReading = false

  constructor(everyMs: number, read: () => Promise<T>) {
    this.#everyMs = everyMs
    this.#read = read
  }

  /** Rejects with the error of the last reading, also in calls within `everyMs` after it. */
  get(): Promise<T> {
    const now = performance.now()
    if (this.#last !== undefined && (this.#isReading || now - this.#last.begunAt < this.#everyMs)) {
      return this.#last.value
    }
    this.#isReading = true
    const value = this.#read().finally(() => (this.#isReading = false))
    this.#last = { begunAt: now, value }
    return value
  }
}
