/** How many names are remembered at least, and half of how many are remembered at most. */
const REMEMBERED = 10_000

/** The names that were used last, such as topics and routing keys. */
export class RememberedNames {
  /** The names that were used last. If there are too many, they become the older names, which are forgotten. */
  #recent = new Set<string>()
  #older: ReadonlySet<string> = new Set()

  add(name: string): void {
    if (this.#recent.has(name)) return
    if (this.#recent.size >= REMEMBERED) {
      this.#older = this.#recent
      this.#recent = new Set()
    }
    this.#recent.add(name)
  }

  has(name: string): boolean {
    return this.#recent.has(name) || this.#older.has(name)
  }
}
