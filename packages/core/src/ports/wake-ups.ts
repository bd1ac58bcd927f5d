/** Listening for the news that messages were stored. It is never relied upon: who listens goes on polling. */
export interface WakeUps {
  /** Ends it. */
  close(): void
}

/** Who wants to be woken. */
export interface Sleeper {
  /** There may be something new: said often, and also after a connection was lost and made anew. */
  readonly woken: () => void
  /** The connection failed. Another is made, after a pause. */
  readonly failed: (error: unknown) => void
}
