/**
 * An open subscription to notifications about new messages. Notifications may be lost, so a listening relay still
 * polls.
 */
export interface WakeUps {
  close(): void
}

/** Receives notifications about new messages. */
export interface Sleeper {
  /**
   * There may be new messages. Called often, also when listening begins, and after a lost connection was replaced.
   *
   * @param isNotified whether a transaction has notified of messages for this sleeper. @default false
   */
  readonly woken: (isNotified?: boolean) => void
  /** There is no listening connection. Another connection is opened after a pause. */
  readonly failed: (error: unknown) => void
}

/**
 * Whether a transaction notifies those who listen when it commits. `'auto'`: a bounded number of transactions a second, and none
 * that the notification could let fail.
 */
export type Notify = boolean | 'auto'
