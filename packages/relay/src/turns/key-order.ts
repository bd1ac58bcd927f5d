import { type BacklogMessage, type PublishResult } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'

/** The index of a predecessor that does not exist. */
const NO_PREDECESSOR = -1

/** The messages of a batch that may be published now, as the order of their keys allows. */
export interface PublishQueue {
  /** Whether a call never has two messages of one key. */
  readonly hasOneOfEachKey: boolean
  /** Returns the messages for the next call. */
  due(): readonly BacklogMessage[]
  /** Takes these messages out of the queue, to publish them now. */
  take(): readonly BacklogMessage[]
  accepted(message: BacklogMessage): void
}

abstract class DueMessages implements PublishQueue {
  abstract readonly hasOneOfEachKey: boolean
  #due: BacklogMessage[] = []

  due(): readonly BacklogMessage[] {
    return this.#due
  }

  take(): readonly BacklogMessage[] {
    const due = this.#due
    this.#due = []
    return due
  }

  abstract accepted(message: BacklogMessage): void

  protected add(...messages: readonly BacklogMessage[]): void {
    this.#due.push(...messages)
  }
}

/** For a publisher that keeps the order of a key itself: one call gets all messages. */
export class WholeBatch extends DueMessages {
  readonly hasOneOfEachKey = false

  constructor(batch: readonly BacklogMessage[]) {
    super()
    this.add(...batch)
  }

  accepted(): void {}
}

/**
 * For any other publisher: the first message of each key is due, and each later message once its predecessor was
 * accepted. After a rejection, the rest of the key never becomes due. Messages without a key are due at once.
 */
export class OneOfEachKey extends DueMessages {
  readonly hasOneOfEachKey = true
  /** The next message of the same key. */
  readonly #next = new Map<BacklogMessage, BacklogMessage>()

  constructor(batch: readonly BacklogMessage[]) {
    super()
    const last = new Map<string, BacklogMessage>()
    for (const message of batch) {
      const before = message.key === undefined ? undefined : last.get(message.key)
      if (before === undefined) this.add(message)
      else this.#next.set(before, message)
      if (message.key !== undefined) last.set(message.key, message)
    }
  }

  accepted(message: BacklogMessage): void {
    const next = this.#next.get(message)
    if (next !== undefined) this.add(next)
  }
}

/** The messages of a call that the publisher has answered before the end of the call. */
export class EarlyAnswers {
  readonly #isAnswered: boolean[]
  /** For each message, the place of the message before it in its key. */
  readonly #before: readonly number[] | undefined

  constructor(messages: readonly BacklogMessage[], queue: PublishQueue) {
    this.#isAnswered = Array.from({ length: messages.length }, () => false)
    this.#before = queue.hasOneOfEachKey ? undefined : predecessors(messages)
  }

  has(index: number): boolean {
    return this.#isAnswered[index] === true
  }

  /**
   * @returns whether the answer counts now. An answer that is invalid or repeated, or that comes before the answer for
   *   an earlier message of the same key, does not: then the result at the end of the call counts.
   */
  add(index: number, result: PublishResult | null | undefined): boolean {
    // An index beyond the end of the call gives `undefined`.
    if (this.#isAnswered[index] !== false) return false
    if (result?.status !== 'accepted' && result?.status !== 'rejected') return false
    const predecessor = this.#before?.[index] ?? NO_PREDECESSOR
    if (predecessor !== NO_PREDECESSOR && !this.has(predecessor)) return false
    this.#isAnswered[index] = true
    return true
  }
}

/**
 * Checks the results of a call. No result of a publisher may lose a message: an invalid result counts as no result.
 *
 * @throws {TypeError} when the answer is not one result for each message.
 */
export function checkResults(results: readonly PublishResult[], messages: readonly BacklogMessage[]): void {
  if (!Array.isArray(results) || results.length !== messages.length) {
    throw new TypeError(
      `The publisher must answer with one result for each of ${messages.length} messages, but answered with ` +
        `${Array.isArray(results) ? `${results.length}` : typeof results}.`,
    )
  }
  const rejected = new Set<string>()
  for (const [index, result] of (results as readonly (PublishResult | null | undefined)[]).entries()) {
    const { id, key } = messages[index]!
    if (result?.status === 'accepted') continue
    if (result?.status === 'rejected') {
      if (key !== undefined) rejected.add(key)
    } else if (result?.status !== 'skipped' || key === undefined || !rejected.has(key)) {
      throw new TypeError(
        `The publisher's result for message ${oneLine(id)} must be 'accepted', 'rejected', or ` +
          `'skipped' after a rejection of the same key, not ${oneLine(String(result?.status))}.`,
      )
    }
  }
}

function predecessors(messages: readonly BacklogMessage[]): readonly number[] {
  const before = Array.from({ length: messages.length }, () => NO_PREDECESSOR)
  const last = new Map<string, number>()
  for (let index = 0; index < messages.length; index++) {
    const { key } = messages[index]!
    if (key === undefined) continue
    const predecessor = last.get(key)
    if (predecessor !== undefined) before[index] = predecessor
    last.set(key, index)
  }
  return before
}
