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
   * Publishes and answers with one result for each message, in the order given. Throwing means that nothing is known:
   * the relay backs off as a whole, counts no attempt and publishes the same messages again.
   *
   * `signal` is aborted when the relay has to stop now.
   */
  publish(
    messages: readonly OutboxMessage[],
    options: { signal: AbortSignal },
  ): Promise<readonly PublishResult[]>
  /**
   * Connects, logs in and asks whether messages would be taken; publishes nothing. For readiness probes and diagnoses. Rejects
   * with what is wrong, without passwords. Does not wait longer than the publisher waits for a connection, nor after
   * `signal` is aborted.
   */
  check?(options: { signal: AbortSignal }): Promise<void>
  /** Called once when the relay has stopped. */
  close?(): Promise<void>
}
