/** Something that waits for messages, with nothing configured. */
export interface Waiter {
  readonly name: string
  /** Begins to wait, and calls `got` when a message has arrived. */
  start(got: () => void): Promise<RunningWaiter>
}

export interface RunningWaiter {
  /** Stores a message in a transaction, and resolves when COMMIT is answered. */
  send(): Promise<void>
  stop(): Promise<void>
}
