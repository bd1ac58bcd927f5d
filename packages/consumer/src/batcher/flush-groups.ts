import { LinkedQueue } from './linked-queue.ts'

/** The items that were added between two calls of `flush`. */
export interface FlushGroup {
  /** The number of items of the group that wait or are being processed. */
  unfinished: number
  readonly finished: PromiseWithResolvers<void>
}

/**
 * Records which items were added before a `flush`, and when all of them have been processed. Only the number of unfinished
 * items of each group is kept, so batches may end in any order.
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

  /** Counts an item of the group as processed. */
  leave(group: FlushGroup): void {
    group.unfinished -= 1
    while (this.#flushed.first?.unfinished === 0) this.#flushed.shift()?.finished.resolve()
  }
}

function newGroup(): FlushGroup {
  return { unfinished: 0, finished: Promise.withResolvers<void>() }
}
