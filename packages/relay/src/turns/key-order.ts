import type { PublishResult, Publisher } from '@txbox/core'
import type { BacklogMessage } from '@txbox/core/ports'
import { oneLine } from '@txbox/core/internal'

const NO_PREDECESSOR = -1

/**
 * The messages of a batch that may be published now. The first message of each key is due, and each later message once its
 * predecessor was accepted; after a rejection, the rest of the key never becomes due. Messages without a place in the order
 * of a key are due at once, and so is the whole batch if the publisher keeps the order of a key itself.
 */
export class PublishQueue {
  #due: BacklogMessage[] = []
  /** The next message of the same key. */
  readonly #next = new Map<BacklogMessage, BacklogMessage>()
  readonly #hasScheduled: boolean
  /** Scheduled messages that were passed over: they are published when nothing else is due. */
  #passedOver: BacklogMessage[] = []

  constructor(batch: readonly BacklogMessage[], ordering: Publisher['ordering']) {
    this.#hasScheduled = batch.some(({ key, ordered }) => key !== undefined && !ordered)
    const last = new Map<string, BacklogMessage>()
    for (const message of batch) {
      const key = ordering === 'per-key' || !message.ordered ? undefined : message.key
      const before = key === undefined ? undefined : last.get(key)
      if (before === undefined) this.#due.push(message)
      else this.#next.set(before, message)
      if (key !== undefined) last.set(key, message)
    }
  }

  get hasDue(): boolean {
    return this.#due.length > 0 || this.#passedOver.length > 0
  }

  get hasOnlyPassedOver(): boolean {
    return this.#due.length === 0
  }

  take(): readonly BacklogMessage[] {
    if (this.#hasScheduled) return this.#takeSome()
    const due = this.#due
    this.#due = []
    return due
  }

  #takeSome(): readonly BacklogMessage[] {
    const [now, later] = forOneCall(this.hasOnlyPassedOver ? this.#passedOver : this.#due)
    this.#passedOver = this.hasOnlyPassedOver ? later : [...this.#passedOver, ...later]
    this.#due = []
    return now
  }

  accepted(message: BacklogMessage): void {
    const next = this.#next.get(message)
    if (next !== undefined) this.#due.push(next)
  }
}

/**
 * Separates the messages that may share a call from those for later calls: a scheduled message shares no call with
 * another message of its key, because within a call, a publisher may keep the order of a key.
 */
function forOneCall(due: readonly BacklogMessage[]): [now: BacklogMessage[], later: BacklogMessage[]] {
  const keys = new Set(due.map(({ key, ordered }) => (ordered ? key : undefined)))
  const now: BacklogMessage[] = []
  const later: BacklogMessage[] = []
  for (const message of due) {
    const { key, ordered } = message
    const isShared = !ordered && key !== undefined && keys.has(key)
    if (!ordered) keys.add(key)
    if (isShared) later.push(message)
    else now.push(message)
  }
  return [now, later]
}

/** The messages of a call that the publisher has answered before the end of the call. */
export class EarlyAnswers {
  readonly #isAnswered: boolean[]
  /** For each message, the place of the message before it in its key; only a whole batch has two messages of a key. */
  readonly #before: readonly number[] | undefined

  constructor(messages: readonly BacklogMessage[], ordering: Publisher['ordering']) {
    this.#isAnswered = Array.from({ length: messages.length }, () => false)
    this.#before = ordering === 'per-key' ? predecessors(messages) : undefined
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
  if (!Array.isArray(results) || results.length !== messages.length)
    throw wrongCount(results, messages.length)
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

function wrongCount(results: unknown, expected: number): TypeError {
  const count = Array.isArray(results) ? `${results.length}` : typeof results
  return new TypeError(
    `The publisher must answer with one result for each of ${expected} messages, but answered with ${count}.`,
  )
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
