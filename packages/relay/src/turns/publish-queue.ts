import type { BacklogMessage } from '@txbox/core'

/** The messages of a batch that the order of their keys allows to publish now. */
export interface PublishQueue {
  /** Whether a call never has two messages of one key. */
  readonly hasOneOfEachKey: boolean
  /** Returns the messages for the next call. */
  due(): readonly BacklogMessage[]
  /** Takes these messages out of the queue, to publish them now. */
  take(): readonly BacklogMessage[]
  accepted(message: BacklogMessage): void
}

/** For a publisher that keeps the order of a key itself: one call gets all messages. */
export class WholeBatch implements PublishQueue {
  readonly hasOneOfEachKey = false
  #due: readonly BacklogMessage[]

  constructor(batch: readonly BacklogMessage[]) {
    this.#due = batch
  }

  due(): readonly BacklogMessage[] {
    return this.#due
  }

  take(): readonly BacklogMessage[] {
    const due = this.#due
    this.#due = []
    return due
  }

  accepted(): void {}
}

/**
 * For any other publisher: the first message of each key is due, and each later message once its predecessor was
 * accepted. After a rejection, the rest of the key never becomes due. Messages without a key are due at once.
 */
export class OneOfEachKey implements PublishQueue {
  readonly hasOneOfEachKey = true
  #due: BacklogMessage[] = []
  /** The next message of the same key. */
  readonly #next = new Map<BacklogMessage, BacklogMessage>()

  constructor(batch: readonly BacklogMessage[]) {
    const last = new Map<string, BacklogMessage>()
    for (const message of batch) {
      const before = message.key === undefined ? undefined : last.get(message.key)
      if (before === undefined) this.#due.push(message)
      else this.#next.set(before, message)
      if (message.key !== undefined) last.set(message.key, message)
    }
  }

  due(): readonly BacklogMessage[] {
    return this.#due
  }

  take(): readonly BacklogMessage[] {
    const due = this.#due
    this.#due = []
    return due
  }

  accepted(message: BacklogMessage): void {
    const next = this.#next.get(message)
    if (next !== undefined) this.#due.push(next)
  }
}
