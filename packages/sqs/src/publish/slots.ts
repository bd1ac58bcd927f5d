/** Limits how many requests are in flight. Callers that find no slot are called back when one is free, in the order in which they asked. */
export class Slots {
  #free: number
  readonly #waiting = new Set<() => void>()

  constructor(count: number) {
    this.#free = count
  }

  /** @param whenFree is called once later, if there is no free slot. @returns whether a slot was taken. */
  take(whenFree: () => void): boolean {
    if (this.#free > 0) {
      this.#free -= 1
      return true
    }
    this.#waiting.add(whenFree)
    return false
  }

  give(): void {
    this.#free += 1
    for (const whenFree of this.#waiting) {
      if (this.#free === 0) return
      this.#waiting.delete(whenFree)
      whenFree()
    }
  }

  /** Must be called when the call is over. */
  forget(whenFree: () => void): void {
    this.#waiting.delete(whenFree)
  }
}
