import type { OutboxMessage } from '../messages/messages.ts'

/** The result of one message. */
export type PublishResult =
  /** The broker has confirmed the message. */
  | { readonly status: 'accepted' }
  /** The destination refused the message. `retryable`: a later attempt may succeed. */
  | {
      readonly status: 'rejected'
      readonly error: unknown
      readonly retryable: boolean
      readonly retryAfterMs?: number | undefined
      /**
       * `false`: the destination of this message is unavailable, and the message is not at fault. The message waits
       * with its key for `retryAfterMs` (30 s by default), no attempt is counted, and the message never becomes a dead
       * letter for this reason.
       *
       * @default true
       */
      readonly counted?: boolean | undefined
    }
  /** Not tried, because an earlier message of the same key was rejected in this call. No attempt is counted. */
  | { readonly status: 'skipped' }

/** Sends messages to a broker. */
export interface Publisher {
  /**
   * `'none'` (default): the relay never passes two messages of one key in one call. `'per-key'`: the relay may pass
   * several messages of one key in one call. After a rejection, the publisher must return `'skipped'` for the remaining
   * messages of that key.
   */
  readonly ordering?: 'none' | 'per-key' | undefined
  /** The name of the broker's kind in spans and metrics, such as `rabbitmq` or `kafka`. */
  readonly system?: string | undefined
  /** The address of the broker in spans and metrics, without user or password. */
  readonly server?: { readonly address: string; readonly port?: number | undefined } | undefined
  /**
   * Publishes the messages and resolves with one result for each message, in the order given. If `publish` throws, the
   * fate of the messages without a result is unknown: the whole relay pauses, counts no attempt, and publishes the same
   * messages again. A slow call holds up only the keys of its own messages: meanwhile the relay may make further calls. A
   * message with `deliverAt` holds up no key: a call meanwhile may contain messages of its key.
   */
  publish(messages: readonly OutboxMessage[], options: PublishOptions): Promise<readonly PublishResult[]>
  /**
   * Connects and logs in, without publishing anything, for readiness probes and `txbox doctor`. Rejects with an error
   * that says what is wrong, without passwords. Without `check`, a relay detects a wrong address with its first
   * message. Waits no longer than the publisher waits for a connection, and stops when `signal` is aborted.
   */
  check?(options: { readonly signal: AbortSignal }): Promise<void>
  /** Called once when the relay has stopped. */
  close?(): Promise<void>
}

export interface PublishOptions {
  /**
   * Aborted when the relay must stop now, or when the call has reported no result for the relay's `publishTimeoutMs`. In
   * the second case the reason is a `DOMException` named `TimeoutError`.
   */
  readonly signal: AbortSignal
  /**
   * Reports the result of the message at this index before the call has the results of all messages, so that a slow
   * message does not hold up the others. The first result of a message counts.
   */
  readonly answered?: ((index: number, result: PublishResult) => void) | undefined
}
