import type { OutboxMessage } from './messages.ts'

/** What became of one message. */
export type PublishResult =
  /** The broker has it and has said so. */
  | { readonly status: 'accepted' }
  /** The broker, or whoever stands there, refuses this message. `retryable`: it may take it another time. */
  | {
      readonly status: 'rejected'
      readonly error: unknown
      readonly retryable: boolean
      readonly retryAfterMs?: number | undefined
      /**
       * `false`: the destination of this message is unavailable, and the message is not at fault. The message waits with
       * its key for `retryAfterMs` (30 s by default), no attempt is counted, and the message never becomes a dead letter
       * for this reason.
       *
       * @default true
       */
      readonly counted?: boolean | undefined
    }
  /** Not tried, because an earlier message of its key was rejected in the same call. Costs no attempt. */
  | { readonly status: 'skipped' }

/** Speaks to a broker. */
export interface Publisher {
  /**
   * `'none'` (default): the relay never passes two messages of one key in one call.
   * `'per-key'`: it does, and after a rejection the publisher answers `'skipped'` for the rest of that key.
   */
  readonly ordering?: 'none' | 'per-key' | undefined
  /**
   * Publishes the messages and resolves with one result for each message, in the order given. Throwing means that nothing
   * is known of the messages that have no result yet: the relay pauses as a whole, counts no attempt and publishes the
   * same messages again. A slow call holds up the keys of its own messages only: the relay may make further calls
   * meanwhile.
   */
  publish(messages: readonly OutboxMessage[], options: PublishOptions): Promise<readonly PublishResult[]>
  /**
   * Connects and logs in, publishes nothing, and rejects with an error that says what is wrong, without passwords. For
   * readiness probes and diagnoses. Without `check`, a relay finds out with its first message. Waits no longer than the
   * publisher waits for a connection, and stops when `signal` is aborted.
   */
  check?(options: { readonly signal: AbortSignal }): Promise<void>
  /** Called once when the relay has stopped. */
  close?(): Promise<void>
}

export interface PublishOptions {
  /**
   * Aborted when the relay has to stop now, or when the call takes longer than the relay's `publishTimeoutMs`; then its
   * reason is a `DOMException` named `TimeoutError`.
   */
  readonly signal: AbortSignal
  /**
   * For a publisher that knows the result of a message before it knows those of all: reports the result of the message at
   * this index, so that a slow neighbour does not hold it up. The first result of a message counts.
   */
  readonly answered?: ((index: number, result: PublishResult) => void) | undefined
}
