import { SuspectCalm } from '@txbox/core/internal'

/** Admits one suspect at a time in the whole process, so that a crash is counted for the suspect that was being tried. */
export class SuspectLane {
  readonly calm = new SuspectCalm()
  #holder: object | undefined
  readonly #waiting = new Set<() => void>()

  /** @returns whether `holder` has the lane now; if not, `freed` is called once when the holder may ask again. */
  enter(holder: object, freed: () => void): boolean {
    if (this.#holder === undefined) this.#holder = holder
    else this.#waiting.add(freed)
    return !this.#waiting.has(freed)
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
