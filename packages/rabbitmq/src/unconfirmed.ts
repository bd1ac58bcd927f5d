/** What has been taken out is dropped from memory when this much has gathered, and is more than what is left. */
const SLACK = 4096

/**
 * What was sent and is not confirmed yet, by its delivery tag: the broker counts what is published on a channel from
 * one, and confirms one, or all up to one. A Map would do, but costs more, for each message twice.
 */
export class Unconfirmed<T> {
  /** The one with the tag `#tagBefore + 1` stands at 0. */
  #entries: (T | undefined)[] = []
  #tagBefore = 0
  /** Where the first that is there stands. */
  #head = 0
  #size = 0

  get size(): number {
    return this.#size
  }

  /** The next tag is its. */
  add(entry: T): void {
    this.#entries.push(entry)
    this.#size += 1
  }

  /** Takes out the one with this tag, or all up to it, in their order. → none where they have been taken out before. */
  take(tag: number, multiple: boolean): readonly T[] {
    const place = tag - this.#tagBefore - 1
    const taken: T[] = []
    for (let at = multiple ? this.#head : place; at <= place; at++) {
      const entry = this.#entries[at]
      if (entry === undefined) continue
      this.#entries[at] = undefined
      taken.push(entry)
    }
    this.#size -= taken.length
    this.#forget()
    return taken
  }

  /** Those that are there and are like this, in their order. Looks at each. */
  matching(like: (entry: T) => boolean): readonly T[] {
    const matching: T[] = []
    for (let at = this.#head; at < this.#entries.length; at++) {
      const entry = this.#entries[at]
      if (entry !== undefined && like(entry)) matching.push(entry)
    }
    return matching
  }

  /** Takes out all. Tags are counted on. */
  clear(): void {
    this.#entries.fill(undefined)
    this.#size = 0
    this.#forget()
  }

  #forget(): void {
    while (this.#head < this.#entries.length && this.#entries[this.#head] === undefined) this.#head++
    if (this.#head < SLACK || this.#head * 2 < this.#entries.length) return
    this.#entries = this.#entries.slice(this.#head)
    this.#tagBefore += this.#head
    this.#head = 0
  }
}
