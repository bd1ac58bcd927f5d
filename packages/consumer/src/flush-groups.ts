import { LinkedQueue } from './linked-queue.ts'

/** The items that were added between two calls of `flush`. */
export interface FlushGroup {
  /** The number of items of the group that wait or are being processed. */
  unfinished: number
  readonly finished: PromiseWithResolvers<void>
}

/**
 * Knows which items were added before a `flush`, and when all of them have been processed. Items count towards a group,
 * so that an item costs one number, no matter in which order batches end.
 */
export class FlushGroups {
  /** Groups that a `flush` waits for, the oldest first. */
  readonly #flushed = new LinkedQueue<FlushGroup>()
  #current = newGroup()

  /** Counts an item. @returns its group. */
  enter(): FlushGroup {
    this.#current.unfinished += 1
    return this.#current
  }

  /** Returns whether `flush` has been called since an item of this group was added. */
  isFlushed(group: FlushGroup): boolean {
    return group !== this.#current
  }

  /** Begins a new group. @returns a promise that resolves when the items of all earlier groups have been processed. */
  flush(): Promise<void> {
    if (this.#current.unfinished > 0) {
      this.#flushed.push(this.#current)
      this.#current = newGroup()
    }
    return this.#flushed.last?.finished.promise ?? Promise.resolve()
  }

  /** An item of the group has been processed. */
  leave(group: FlushGroup): void {
    group.unfinished -= 1
    while (this.#flushed.first?.unfinished === 0) this.#flushed.shift()?.finished.resolve()
  }
}

function newGroup(): FlushGroup {
  return { unfinished: 0, finished: Promise.withResolvers<void>() }
}
