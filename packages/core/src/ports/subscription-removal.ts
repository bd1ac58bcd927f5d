import type { BoundedCount } from './inspection-store.ts'

export interface RemovalOptions {
  /** Only this type; `undefined` ends all subscriptions of the consumer. */
  readonly type: string | undefined
  /** Whether the messages of the consumer are deleted, dead letters included. */
  readonly discard: boolean
  /** The operator, for the record. */
  readonly by: string
  /** How long to wait for publishers that were open when the subscription ended, and for handlers that have messages. */
  readonly waitMs: number
}

/**
 * - `'unknown'`: the consumer has neither such a subscription nor messages that would be removed. Nothing was changed.
 * - `'refused'`: messages wait, and `discard` is false. Nothing was changed.
 * - `'removed'`: the subscription has ended, and the record says so. `left` counts the messages that are there nevertheless:
 *   publishers that were open have stored them, an outbox still names the consumer in its option `subscriptions`, or a
 *   handler has them. `openPublishers` says whether such publishers may still be open.
 */
export type RemovalOutcome =
  | { readonly outcome: 'unknown' }
  | { readonly outcome: 'refused'; readonly waiting: BoundedCount }
  | {
      readonly outcome: 'removed'
      readonly discarded: number
      readonly left: BoundedCount
      readonly openPublishers: boolean
    }

/** Ends subscriptions of local consumers. */
export interface SubscriptionRemovalStore {
  /**
   * Ends the subscription first, so that no further messages are stored for it; then waits for publishers that are open, and
   * deletes the messages page by page, or counts them. Each page is one short transaction, which also counts its messages in the
   * record.
   */
  remove(consumer: string, options: RemovalOptions): Promise<RemovalOutcome>
}
