import type { AnyMessage, InTransaction, KeyExtractor, TransactionHandle } from '@txbox/core'
import type { InboxOutcome } from './outcome.ts'

/** What a handler is told about the delivery. */
export interface InboxContext {
  readonly consumer: string
  /** As in the outcome. */
  readonly key: string
  /** The same for every delivery of one message to one consumer, different for all others: 64 hexadecimal digits. */
  readonly idempotencyKey: string
  /** 1, or the number of the attempt within `run`. */
  readonly attempt: number
  /** Aborted when the caller of `run` gives up; never in `process`. */
  readonly signal: AbortSignal
}

/** One shape everywhere: `process`, `run`, and the consumer runtimes to come. */
export type InboxHandler<Tx, M extends AnyMessage = AnyMessage, R = void> = (
  tx: Tx,
  message: M,
  context: InboxContext,
) => Promise<R> | R

/** Told once for each duplicate. */
export interface DuplicateEvent<M> {
  readonly consumer: string
  readonly key: string
  readonly message: M
  readonly firstProcessedAt: Date
  readonly firstCorrelationId?: string
}

export interface InboxOptions<M extends AnyMessage> {
  /** The name of one logical handler: dedup is per consumer. 1 to 100 characters. */
  consumer: string
  /** What makes two deliveries the same message. @default messageId() */
  key?: KeyExtractor<M> | undefined
  /**
   * How long a claim is remembered, in milliseconds, by the database's clock: a redelivery after that runs again. 1 to
   * 100 years. @default 7 days
   */
  retentionMs?: number | undefined
  /** Not available in this version: refused. */
  maxAgeMs?: number | undefined
  /** A delivery waits while another of the same key is handled. `'report'` is not available in this version: refused. @default 'wait' */
  inFlight?: 'wait' | 'report' | undefined
  /** Not available in this version: refused. */
  lockTimeoutMs?: number | undefined
  /** `true` is not available in this version: refused. @default false */
  storeResult?: boolean | undefined
  /** Told of each duplicate, before the call returns. What it throws is ignored: the outcome is the same. */
  onDuplicate?: ((event: DuplicateEvent<M>) => void) | undefined
}

/**
 * An inbox in the caller's transactions.
 *
 * All methods throw, with nothing written: `InvalidMessageError` for a message without a usable key;
 * `UnsupportedTransactionError` or `NotInTransactionError` for a `tx` that is no open transaction; `SchemaError` when
 * the tables are missing or of another revision; `TransactionConflictError` when the database asks for the transaction
 * to be run again; `DatabaseUnavailableError` when the connection breaks. Roll back after any but the first two.
 */
export interface DetachedInbox<M extends AnyMessage> {
  readonly consumer: string
  /**
   * Claims the message and, if this delivery is the first, runs `fn`, in the caller's transaction. The caller commits:
   * claim and effects together. What `fn` throws comes out untouched; roll back, and a redelivery runs again.
   *
   * @throws {TransactionAbortedError} when `fn` returned although an error had aborted the transaction.
   */
  process<H extends object, N extends M, R>(
    tx: H & InTransaction<H>,
    message: N,
    fn: InboxHandler<H, N, R>,
  ): Promise<InboxOutcome<R>>
  /**
   * Claims all messages, then runs `fn` once with the new ones in their order; not at all if there is none. An outcome
   * for each message, in the order given. The same key twice: the first is new, the second a duplicate. At most 10 000.
   */
  processBatch<H extends object, N extends M, R>(
    tx: H & InTransaction<H>,
    messages: readonly N[],
    fn: (tx: H, fresh: readonly N[], contexts: readonly InboxContext[]) => Promise<R> | R,
  ): Promise<{ outcomes: readonly InboxOutcome<undefined>[]; result?: R }>
  /** Is there a live claim for this message? Takes no lock and decides nothing: a claim can come a moment later. */
  hasProcessed(tx: TransactionHandle, message: M): Promise<boolean>
  /** Claims the message without a handler. */
  markProcessed(tx: TransactionHandle, message: M): Promise<'recorded' | 'duplicate'>
  /** Removes the claim, so that a redelivery runs again. → whether a live one was there. */
  forget(tx: TransactionHandle, message: M): Promise<boolean>
}

/** An inbox that can also open transactions of its own. */
export interface Inbox<Tx, M extends AnyMessage = AnyMessage> extends DetachedInbox<M> {
  /**
   * As `process`, in a transaction of its own that it commits. When the database asks for another attempt (deadlock,
   * serialization failure), it starts anew, after a short random pause.
   *
   * @throws {DatabaseUnavailableError} when the connection breaks; if that was during COMMIT, the effect may be there,
   *   and a redelivery will be a duplicate.
   */
  run<N extends M, R>(
    message: N,
    fn: InboxHandler<Tx, N, R>,
    options?: {
      /** Gives up before the next attempt; the handler sees it as `context.signal`. */
      signal?: AbortSignal | undefined
      /** How often the transaction is run at most, 1 to 100. @default 5 */
      attempts?: number | undefined
    },
  ): Promise<InboxOutcome<R>>
}
