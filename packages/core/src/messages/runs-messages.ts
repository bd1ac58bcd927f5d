import type { Loss } from '../errors/lost-connection.ts'
import type { AnyMessage } from './messages.ts'

/** The delivery that a handler handles. */
export interface InboxContext {
  readonly consumer: string
  /** The text of the key, as in the outcome. */
  readonly key: string
  /** The same for every delivery of one message to one consumer, and different for all others: 64 hexadecimal digits. */
  readonly idempotencyKey: string
  /** The number of the attempt within this call of `run`; always 1 in `process`. */
  readonly attempt: number
  /** The `signal` that was passed to `run`; never aborted in `process`. */
  readonly signal: AbortSignal
}

/** The outcome of one message, as far as a consumer needs it. */
export type RunOutcome<R = unknown> =
  | { readonly status: 'processed'; readonly key: string; readonly result: R }
  | { readonly status: 'duplicate' | 'in-flight' | 'too-old'; readonly key: string }

export interface RunsMessagesOptions {
  signal?: AbortSignal | undefined
  /** Whether a second attempt gets a copy that was made before the first. A consumer passes `false`: it renews messages itself. */
  copy?: boolean | undefined
  /** Called when an attempt has failed because of a conflict of the database, and another one follows after `delayMs`. */
  onConflict?: ((error: unknown, delayMs: number) => void) | undefined
}

/** What a consumer needs of an inbox: a handler that runs once for each message, in a transaction that commits with the claim. */
export interface RunsMessages<Tx, M extends AnyMessage = AnyMessage> {
  readonly consumer: string
  /**
   * Returns the text of the message's key, without any access to the database.
   *
   * @throws {InvalidMessageError} for a message without a usable key, and whatever the key extractor throws.
   */
  keyTextOf?(message: M): string
  /**
   * Returns what was lost when `run` or `runBatch` rejected with this error: the connection of the transaction, in a statement of
   * the handler or in COMMIT, or all connections. Never rejects. @default nothing is ever lost
   */
  lossOf?(error: unknown): Promise<Loss>
  /** Handles one message in a new transaction, and commits. Aborting `signal` rolls back. */
  run<N extends M, R>(
    message: N,
    fn: (tx: Tx, message: N, context: InboxContext) => Promise<R> | R,
    options?: RunsMessagesOptions,
  ): Promise<RunOutcome<R>>
  /** Handles the new ones of several messages together in a new transaction, and commits. Aborting `signal` rolls back. */
  runBatch<N extends M, R>(
    messages: readonly N[],
    fn: (tx: Tx, fresh: readonly N[], contexts: readonly InboxContext[]) => Promise<R> | R,
    options?: RunsMessagesOptions,
  ): Promise<{ outcomes: readonly RunOutcome<undefined>[]; result?: R }>
}
