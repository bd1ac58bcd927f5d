/** The memory of removed entries is freed when this many were removed, and more were removed than are left. */
const FREE_ABOVE = 4096

/**
 * The messages that were sent and are not confirmed yet, by their delivery tags: the broker counts the messages that are
 * published on a channel from one, and confirms one message, or all messages up to one.
 */
export class Unconfirmed<T> {
  /** The entry with the tag `#tagBefore + 1` is at index 0. */
  #entries: (T | undefined)[] = []
  #tagBefore = 0
  /** The index of the first entry that was not removed. */
  #head = 0
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Adds an entry under the next tag. */
  add(entry: T): void {
    this.#entries.push(entry)
    this.#size += 1
  }

  /**
   * Removes the entry with this tag, or all entries up to it.
   *
   * @returns the removed entries in their order; none if they have been removed before.
   */
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

  /** @returns the entries that match, in their order. Checks each entry. */
  matching(like: (entry: T) => boolean): readonly T[] {
    const matching: T[] = []
    for (let at = this.#head; at < this.#entries.length; at++) {
      const entry = this.#entries[at]
      if (entry !== undefined && like(entry)) matching.push(entry)
    }
    return matching
  }

  /** The count of tags continues. */
  clear(): void {
    this.#entries.fill(undefined)
    this.#size = 0
    this.#forget()
  }

  #forget(): void {
    while (this.#head < this.#entries.length && this.#entries[this.#head] === undefined) this.#head++
    if (this.#head < FREE_ABOVE || this.#head * 2 < this.#entries.length) return
    this.#entries = this.#entries.slice(this.#head)
    this.#tagBefore += this.#head
    this.#head = 0
  }
}
