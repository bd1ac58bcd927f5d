/**
 * An open subscription to notifications about new messages. Notifications may be lost, so a listening relay still
 * polls.
 */
export interface WakeUps {
  close(): void
}

/** Receives notifications about new messages. */
export interface Sleeper {
  /** There may be new messages. Called often, also after a lost connection was replaced. */
  readonly woken: () => void
  /** The connection failed. Another connection is opened after a pause. */
  readonly failed: (error: unknown) => void
}
