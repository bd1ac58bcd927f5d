import type { InboxContext } from '@txbox/core'
import { idempotencyKey, type InboxKey } from '@txbox/core/internal'

/** The signal of `process`, which has no option `signal`, because its caller owns the transaction. */
const NEVER_ABORTED = new AbortController().signal

export interface HandlerAttempt {
  readonly attempt: number
  readonly signal: AbortSignal
}

export const FIRST_ATTEMPT: HandlerAttempt = { attempt: 1, signal: NEVER_ABORTED }

/** {@link InboxContext} documents the properties. */
export class HandlerContext implements InboxContext {
  /**
   * Computed lazily: hashing is one of the most expensive steps here, and few handlers need the key. The property is an
   * own property, so that a copy of the context has it too. All contexts share one getter; a getter in an object
   * literal would be a new function for each context.
   */
  static readonly #IDEMPOTENCY_KEY = {
    enumerable: true,
    get(this: HandlerContext): string {
      return idempotencyKey(this.consumer, this.#key)
    },
  }

  readonly consumer: string
  readonly key: string
  readonly attempt: number
  readonly signal: AbortSignal
  declare readonly idempotencyKey: string
  readonly #key: InboxKey

  constructor(consumer: string, key: InboxKey, { attempt, signal }: HandlerAttempt) {
    this.consumer = consumer
    this.key = key.text
    this.attempt = attempt
    this.signal = signal
    this.#key = key
    Object.defineProperty(this, 'idempotencyKey', HandlerContext.#IDEMPOTENCY_KEY)
  }
}
