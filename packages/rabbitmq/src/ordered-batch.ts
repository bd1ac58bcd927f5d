import type { OutboxMessage, PublishResult } from '@txbox/core'

const SKIPPED: PublishResult = { status: 'skipped' }

/** The index of a message that does not exist. */
const NO_MESSAGE = -1

/**
 * The messages of one call, and the result of each. Of each key, only the first message without a result may be in
 * flight: the broker can refuse a message and take the one behind it, and then their order would be lost.
 */
export class OrderedBatch {
  readonly messages: readonly OutboxMessage[]
  /** In the order of the messages; `undefined` while nothing is known. */
  readonly results: (PublishResult | undefined)[]
  /** For each message, the place of the next message of the same key. */
  readonly #next: number[]

  constructor(messages: readonly OutboxMessage[]) {
    this.messages = messages
    this.results = Array.from({ length: messages.length })
    this.#next = Array.from({ length: messages.length }, () => NO_MESSAGE)
    const last = new Map<string, number>()
    for (const [index, { key }] of messages.entries()) {
      if (key === undefined) continue
      const before = last.get(key)
      if (before !== undefined) this.#next[before] = index
      last.set(key, index)
    }
  }

  /** The number of messages without a result. */
  get unknown(): number {
    return this.results.filter((result) => result === undefined).length
  }

  /** The places of the messages that may go at once: the first of each key, and those without a key. */
  due(): number[] {
    const following = new Set(this.#next)
    return [...this.messages.keys()].filter((index) => !following.has(index))
  }

  /**
   * Notes the result of a message. A rejection skips the rest of its key.
   *
   * @returns the place of the message that may go now.
   */
  settle(index: number, result: PublishResult): number | undefined {
    this.results[index] = result
    let next = this.#next[index]!
    if (result.status === 'accepted') return next === NO_MESSAGE ? undefined : next
    for (; next !== NO_MESSAGE; next = this.#next[next]!) this.results[next] = SKIPPED
    return undefined
  }
}
