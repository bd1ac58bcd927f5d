import type { OutboxMessage, PublishResult } from '@txbox/core'

const SKIPPED: PublishResult = { status: 'skipped' }

/** There is no such message. */
const NONE = -1

/**
 * The messages of one call, and what is known of each. Of one key only the first that is not known may be in flight:
 * the broker can refuse a message while it takes the one behind it, and then their order would be lost.
 */
export class OrderedBatch {
  readonly messages: readonly OutboxMessage[]
  /** In the order of the messages; `undefined`: nothing is known. */
  readonly results: (PublishResult | undefined)[]
  /** The next message of the same key, by the place of the one before it. */
  readonly #next: Int32Array

  constructor(messages: readonly OutboxMessage[]) {
    this.messages = messages
    this.results = Array.from({ length: messages.length })
    this.#next = new Int32Array(messages.length).fill(NONE)
    const last = new Map<string, number>()
    for (const [index, { key }] of messages.entries()) {
      if (key === undefined) continue
      const before = last.get(key)
      if (before !== undefined) this.#next[before] = index
      last.set(key, index)
    }
  }

  /** How many messages nothing is known of. */
  get unknown(): number {
    return this.results.filter((result) => result === undefined).length
  }

  /** The places of those that may go at first: all that follow none of their key. */
  due(): number[] {
    const following = new Set(this.#next)
    return [...this.messages.keys()].filter((index) => !following.has(index))
  }

  /** Notes what became of a message. A rejection skips the rest of its key. @returns the place of the one that may go now. */
  settle(index: number, result: PublishResult): number | undefined {
    this.results[index] = result
    let next = this.#next[index]!
    if (result.status === 'accepted') return next === NONE ? undefined : next
    for (; next !== NONE; next = this.#next[next]!) this.results[next] = SKIPPED
    return undefined
  }
}
