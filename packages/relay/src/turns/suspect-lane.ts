/**
 * The time that a suspect which has been tried before leaves to all others after a takeover, and after the first try of
 * another suspect. If it killed its process at once again and again, nothing else would move between two deaths.
 */
const CALM_MS = 1000

/** Admits one suspect at a time in the whole process, so that a crash is counted for the suspect that was being tried. */
export class SuspectLane {
  #holder: object | undefined
  #calmAt = -Infinity
  readonly #waiting = new Set<() => void>()

  /** @returns whether `holder` has the lane now; if not, `freed` is called once when the holder may ask again. */
  enter(holder: object, freed: () => void): boolean {
    if (this.#holder === undefined) this.#holder = holder
    else this.#waiting.add(freed)
    return !this.#waiting.has(freed)
  }

  /** Must be called when a shard was taken over after a crash, and when a suspect is tried for the first time. */
  disturb(): void {
    this.#calmAt = performance.now() + CALM_MS
  }

  /** The time for which a suspect that has been tried before must still wait. */
  get calmInMs(): number {
    return Math.max(0, this.#calmAt - performance.now())
  }

  /** Does nothing unless `holder` has the lane. */
  leave(holder: object): void {
    if (this.#holder !== holder) return
    this.#holder = undefined
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const freed of waiting) freed()
  }

  /** Ends the wait of a shard: `freed` is not called any more. */
  forget(freed: () => void): void {
    this.#waiting.delete(freed)
  }
}
