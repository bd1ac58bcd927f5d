import { createHash } from 'node:crypto'
import type { DeduplicationOptions } from '@txbox/core'

/** A message of a model: its payload is text, stored as it is. */
export interface ModelMessage {
  readonly id: string
  readonly topic: string
  readonly key?: string
  readonly payload: string
  readonly deduplicationId?: string
}

export interface ModelOutcome {
  readonly id: string
  readonly duplicate: boolean
}

interface Remembered {
  readonly messageId: string
  readonly sentAtMs: number
}

/**
 * The rules F1 to F12 as a program that knows no database: a history of sends in one thread, with a clock that the test
 * sets. The history is a value: `copy` is a savepoint.
 */
export class SentHistory {
  readonly #options: {
    readonly [N in keyof DeduplicationOptions]-?: DeduplicationOptions[N] & {}
  }
  readonly #history = new Map<string, Remembered>()
  nowMs = 0

  constructor(options: DeduplicationOptions = {}) {
    this.#options = {
      windowMs: options.windowMs ?? 300_000,
      contentBased: options.contentBased ?? false,
      scope: options.scope ?? 'queue',
      contentMatch: options.contentMatch ?? 'content',
    }
  }

  copy(): SentHistory {
    const copy = new SentHistory(this.#options)
    copy.nowMs = this.nowMs
    for (const [name, remembered] of this.#history) copy.#history.set(name, remembered)
    return copy
  }

  /** F12: an array is its messages one after another. */
  sendAll(messages: readonly ModelMessage[]): ModelOutcome[] {
    return messages.map((message) => this.send(message))
  }

  send(message: ModelMessage): ModelOutcome {
    const { contentBased, contentMatch } = this.#options
    const { deduplicationId } = message
    if (deduplicationId === undefined && !contentBased) throw new Error('F7: a message without an id')
    // F8: content is the payload.
    const content = createHash('sha256').update(message.payload).digest('hex')
    const id = deduplicationId ?? content
    // F2, F9: the id's first message is the answer.
    const first =
      this.#live(message, id) ??
      // F10
      (contentBased && contentMatch === 'content' ? this.#live(message, content) : undefined)
    if (first !== undefined) return { id: first, duplicate: true }
    this.#history.set(this.#name(message, id), { messageId: message.id, sentAtMs: this.nowMs })
    return { id: message.id, duplicate: false }
  }

  /** The ids that are remembered now, with their scopes: as text that can be compared. */
  remembered(): string[] {
    return [...this.#history]
      .filter(([, { sentAtMs }]) => this.#isLive(sentAtMs))
      .map(([name, { messageId }]) => `${name} → ${messageId}`)
      .toSorted()
  }

  #live(message: ModelMessage, id: string): string | undefined {
    const remembered = this.#history.get(this.#name(message, id))
    // F4, F5: counted from the send that stored the message.
    return remembered !== undefined && this.#isLive(remembered.sentAtMs) ? remembered.messageId : undefined
  }

  #isLive(sentAtMs: number): boolean {
    return this.nowMs < sentAtMs + this.#options.windowMs
  }

  /** F11 */
  #name({ topic, key }: ModelMessage, id: string): string {
    const scope = this.#options.scope === 'key' && key !== undefined ? [topic, key] : [topic]
    return JSON.stringify([...scope, id])
  }
}
