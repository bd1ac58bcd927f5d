/** One suspect at a time in the whole process, so that a crash is counted for the suspect that was being tried. */
export class SuspectLane {
  #taken = false
  readonly #waiting = new Set<() => void>()

  /** @returns whether the caller has the lane now. If not, `freed` is called once, when the caller may ask again. */
  enter(freed: () => void): boolean {
    if (this.#taken) {
      this.#waiting.add(freed)
      return false
    }
    this.#taken = true
    return true
  }

  leave(): void {
    this.#taken = false
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const freed of waiting) freed()
  }
}
