/**
 * The table `subscriptions`: which local consumers get which types of messages.
 */
export interface SubscriptionStore {
  /**
   * Adds the missing rows of a consumer; rows are never removed here. Reads first and writes only what is missing, so that a
   * start without news locks nothing. Repeats a conflict a few times.
   *
   * @returns the types that were added.
   */
  register(consumer: string, types: readonly string[]): Promise<readonly string[]>
  /** All rows, ordered by consumer and type. */
  list(): Promise<readonly Subscription[]>
}

export interface Subscription {
  readonly type: string
  readonly consumer: string
  readonly registeredAt: Date
}
