import type { OutboxMessage } from '../messages/messages.ts'
import type { PublishResult } from '../ports/publisher.ts'

const SKIPPED: PublishResult = { status: 'skipped' }

const NO_MESSAGE = -1

/**
 * The messages of one call, and the result of each message. Of each key, only the first message without a result may be in
 * flight: if the broker refused a message and accepted the next message of the key, their order would be lost.
 */
export class OrderedBatch {
  /** The messages of the call, in their order. */
  readonly messages: readonly OutboxMessage[]
  /** The results in the order of the messages; `undefined` while a result is unknown. */
  readonly results: (PublishResult | undefined)[]
  /** For each message, the place of the next message of the same key. */
  readonly #next: number[]

  /** @param messages the messages of one call of `publish`, in their order. */
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

  /**
   * The places of the messages without a result that may be sent at once: the first such message of each key, and all
   * messages without a key.
   */
  due(): number[] {
    const following = new Set(this.#next.filter((_, index) => this.results[index] === undefined))
    return [...this.messages.keys()].filter(
      (index) => this.results[index] === undefined && !following.has(index),
    )
  }

  /** The place of the next message of the same key; `undefined` if there is none. */
  after(index: number): number | undefined {
    const next = this.#next[index]!
    return next === NO_MESSAGE ? undefined : next
  }

  /**
   * Records the result of a message. A rejection skips the later messages of its key.
   *
   * @returns the place of the message that may be sent now.
   */
  settle(index: number, result: PublishResult): number | undefined {
    this.results[index] = result
    let next = this.#next[index]!
    if (result.status === 'accepted') return next === NO_MESSAGE ? undefined : next
    for (; next !== NO_MESSAGE; next = this.#next[next]!) this.results[next] = SKIPPED
    return undefined
  }
}
