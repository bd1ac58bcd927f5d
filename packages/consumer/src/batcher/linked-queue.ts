export interface Link<T> {
  readonly value: T
  previous: Link<T> | undefined
  next: Link<T> | undefined
  isRemoved: boolean
}

/** A first-in, first-out queue from which a value in the middle can be removed. Every method takes constant time. */
export class LinkedQueue<T extends object> {
  #first: Link<T> | undefined
  #last: Link<T> | undefined
  #length = 0

  get length(): number {
    return this.#length
  }

  get first(): T | undefined {
    return this.#first?.value
  }

  get last(): T | undefined {
    return this.#last?.value
  }

  push(value: T): Link<T> {
    const link: Link<T> = { value, previous: this.#last, next: undefined, isRemoved: false }
    if (this.#last === undefined) this.#first = link
    else this.#last.next = link
    this.#last = link
    this.#length += 1
    return link
  }

  shift(): T | undefined {
    const link = this.#first
    if (link !== undefined) this.remove(link)
    return link?.value
  }

  /** Removes a link of this queue. Does nothing if the link was removed before. */
  remove(link: Link<T>): void {
    if (link.isRemoved) return
    link.isRemoved = true
    if (link.previous === undefined) this.#first = link.next
    else link.previous.next = link.next
    if (link.next === undefined) this.#last = link.previous
    else link.next.previous = link.previous
    this.#length -= 1
  }
}
