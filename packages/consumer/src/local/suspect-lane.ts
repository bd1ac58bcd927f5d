/** Admits one suspect of a consumer at a time, so that a crash is counted for the suspect that was being tried. */
export class SuspectLane {
  #holder: object | undefined
  readonly #waiting = new Map<object, () => void>()

  /** @returns whether `holder` has the lane now; if not, `freed` is called once when the holder may ask again. */
  enter(holder: object, freed: () => void): boolean {
    if (this.#holder === undefined || this.#holder === holder) this.#holder = holder
    else this.#waiting.set(holder, freed)
    return this.#holder === holder
  }

  /** Ends the wait of a holder, too. */
  leave(holder: object): void {
    this.#waiting.delete(holder)
    if (this.#holder !== holder) return
    this.#holder = undefined
    const waiting = [...this.#waiting.values()]
    this.#waiting.clear()
    for (const freed of waiting) freed()
  }
}
