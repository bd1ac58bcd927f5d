import type {
  AnyMessage,
  InTransaction,
  InboxContext,
  KeyExtractor,
  Telemetry,
  TransactionHandle,
} from '@txbox/core'
import type { InboxOutcome } from './outcome.ts'

/** A handler for `process` and `run`. */
export type InboxHandler<Tx, M extends AnyMessage = AnyMessage, R = void> = (
  tx: Tx,
  message: M,
  context: InboxContext,
) => Promise<R> | R

export interface DuplicateEvent<M> {
  readonly consumer: string
  readonly key: string
  readonly message: M
  readonly firstProcessedAt: Date
  readonly firstCorrelationId?: string
}

export interface InboxOptions<M extends AnyMessage> {
  /** The name of one logical handler: each consumer detects duplicates separately. 1 to 100 characters. */
  consumer: string
  /** Extracts the key; deliveries with the same key are the same message. @default messageId() */
  key?: KeyExtractor<M> | undefined
  /**
   * How long a claim is remembered, by the database's clock, in milliseconds: 1 ms to 100 years. A redelivery after
   * this time runs the handler again. @default 7 days
   */
  retentionMs?: number | undefined
  /**
   * The longest time after the first delivery at which the broker may deliver the message again, in milliseconds: 1 ms
   * to 100 years. If `retentionMs` is shorter, `createInbox` emits a process warning (`TXBOX_SHORT_RETENTION`). This
   * option has no other effect.
   *
   * @default no check
   */
  redeliveryHorizonMs?: number | undefined
  /**
   * The maximum age of a message, in milliseconds: 1 ms to 100 years. A message whose `time` is longer ago, by the
   * clock of the database, is not handled: its outcome is `'too-old'`. The clock is read once a minute, in the transaction
   * of a message. With a value of at most `retentionMs`, a replay
   * cannot run the handler again after the claim was collected. A message without a valid `time` is an
   * `InvalidMessageError`. Applies to `process`, `processBatch`, `run` and `runBatch`.
   *
   * @default no limit
   */
  maxAgeMs?: number | undefined
  /**
   * What happens to a delivery while another delivery with the same key is in flight. `'wait'`: the delivery waits for
   * the other transaction. `'report'`: the outcome is `'in-flight'` at once, and the handler does not run; give the
   * delivery back to the broker. On MySQL, the answer takes three more round trips, and up to a second except at READ
   * COMMITTED. On PostgreSQL, all inboxes of this consumer must use `'report'`, because a delivery still waits for a
   * claim that was made without it.
   *
   * @default 'wait'
   */
  inFlight?: 'wait' | 'report' | undefined
  /**
   * The longest wait for a delivery in flight, in milliseconds: 1 ms to 1 hour. A longer wait ends with a
   * `TransactionConflictError`; `run` tries again. MySQL and MariaDB round the time up to whole seconds. The setting of
   * the connection is restored afterwards. This costs two round trips on PostgreSQL, three on MySQL, and none on
   * MariaDB.
   *
   * @default the setting of the connection (`lock_timeout`, `innodb_lock_wait_timeout`)
   */
  lockTimeoutMs?: number | undefined
  /**
   * Stores the handler's result with the claim, as JSON of at most 1 MiB, and returns it for each duplicate. This takes
   * one more statement. If a result is longer, or cannot be written as JSON, `process` and `run` throw an
   * `InvalidMessageError`. `processBatch` and `markProcessed` store no results.
   *
   * @default false
   */
  storeResult?: boolean | undefined
  /**
   * What happens to a duplicate whose payload differs from that of the first delivery. `'duplicate'`: payloads are not
   * compared. `'error'`: the call throws `InvalidMessageError`, and `processBatch` must then be rolled back. The inbox
   * stores the SHA-256 of each payload: of its bytes, or of its canonical JSON (RFC 8785). A claim that was made without
   * this option has no hash, and matches every payload.
   *
   * @default 'duplicate'
   */
  onMismatch?: 'duplicate' | 'error' | undefined
  /** Called for each duplicate, before the call returns. An error that the callback throws is ignored. */
  onDuplicate?: ((event: DuplicateEvent<M>) => void) | undefined
  /**
   * The telemetry that receives traces and metrics: each message, or batch, is handled in a span `process <consumer>`, in which the
   * handler runs. A consumer with this inbox has a span of its own, and the inbox then begins none.
   *
   * @default the telemetry that is registered for the process, such as by `import '@txbox/opentelemetry/register'`
   */
  telemetry?: Telemetry | undefined
  /**
   * How the span of a message is related to the headers `traceparent` and `tracestate` of the message. `'message'`: the span is part
   * of that trace: a child of the code that is running, if that is part of it too. `'link'`: the span is part of the trace of the
   * code that is running, or begins one, and is linked to the other one. The span of a batch is always linked.
   *
   * @default 'message'
   */
  parent?: 'message' | 'link' | undefined
}

/**
 * An inbox that works in the caller's transactions.
 *
 * All methods can throw these errors; nothing is then written: `InvalidMessageError` for a message without a usable
 * key; `UnsupportedTransactionError` or `NotInTransactionError` if `tx` is not an open transaction; `SchemaError` if
 * the tables are missing or have another revision; `TransactionConflictError` if the database asks for the transaction
 * to be run again; `DatabaseUnavailableError` if the connection breaks. After `SchemaError`, `TransactionConflictError`
 * and `DatabaseUnavailableError`, roll back.
 */
export interface DetachedInbox<M extends AnyMessage> {
  readonly consumer: string
  /**
   * Claims the message in the caller's transaction, and runs `fn` if this delivery is the first. The caller commits the
   * claim and the effects together. An error that `fn` throws is rethrown unchanged. Roll back then: a redelivery runs
   * the handler again.
   *
   * @throws {TransactionAbortedError} when `fn` returned although an error had aborted the transaction.
   */
  process<H extends object, N extends M, R>(
    tx: H & InTransaction<H>,
    message: N,
    fn: InboxHandler<H, N, R>,
  ): Promise<InboxOutcome<R>>
  /**
   * Claims all messages, and then calls `fn` once with the new ones in their order. `fn` is not called if there are no
   * new messages. If two messages have the same key, the first is new and the second is a duplicate. At most 10,000
   * messages.
   *
   * @returns `outcomes` with one outcome for each message in the order given, and the `result` of `fn`, if `fn` was
   *   called.
   */
  processBatch<H extends object, N extends M, R>(
    tx: H & InTransaction<H>,
    messages: readonly N[],
    fn: (tx: H, fresh: readonly N[], contexts: readonly InboxContext[]) => Promise<R> | R,
  ): Promise<{ outcomes: readonly InboxOutcome<undefined>[]; result?: R }>
  /**
   * Returns whether there is a live claim for this message. Takes no lock: another transaction may claim the message a
   * moment later.
   */
  hasProcessed(tx: TransactionHandle, message: M): Promise<boolean>
  /**
   * Claims the message without a handler.
   *
   * @throws {TransactionConflictError} with `inFlight: 'report'`, while another delivery is in flight.
   */
  markProcessed(tx: TransactionHandle, message: M): Promise<'recorded' | 'duplicate'>
  /**
   * Removes the claim, so that a redelivery runs the handler again.
   *
   * @returns whether there was a live claim.
   */
  forget(tx: TransactionHandle, message: M): Promise<boolean>
}

/** An inbox that can also open its own transactions. */
export interface Inbox<Tx, M extends AnyMessage = AnyMessage> extends DetachedInbox<M> {
  /**
   * Like `process`, in a new transaction that `run` commits. If the database asks for another attempt (deadlock,
   * serialization failure), `run` starts again after a short random pause.
   *
   * @throws {DatabaseUnavailableError} when the connection breaks. If the connection broke during COMMIT, the
   *   transaction may have committed; a redelivery is then a duplicate.
   */
  run<N extends M, R>(
    message: N,
    fn: InboxHandler<Tx, N, R>,
    options?: {
      /**
       * Aborting the signal prevents the next attempt, and gives up a handler that is running: the transaction is
       * rolled back, its connection is closed, and `run` rejects with the signal's reason. A statement in flight may
       * hold its locks until it ends on the server (`statement_timeout`, `max_execution_time`). With Kysely, `run`
       * waits for a statement in flight. With postgres.js, pg-promise, Prisma and PGlite, which hide their connections,
       * `run` waits for the handler. The handler gets the signal as `context.signal`.
       */
      signal?: AbortSignal | undefined
      /** The maximum number of attempts, 1 to 100. @default 5 */
      attempts?: number | undefined
      /**
       * Whether each attempt sees the message as it was passed, also if an earlier attempt has changed it. `run` copies the
       * plain objects, arrays and bytes of the message before the first attempt, which gets the message itself; later
       * attempts get copies. All other objects, such as a Date, a Map or an object of a class, are the same in each
       * attempt: do not change them. With `false` nothing is copied, which is faster for large messages: for handlers
       * that never change a message.
       *
       * @default true
       */
      copy?: boolean | undefined
      /**
       * Called when an attempt has failed because the database asks for another one, which follows after `delayMs`
       * milliseconds. An error that the callback throws ends the call.
       */
      onConflict?: ((error: unknown, delayMs: number) => void) | undefined
    },
  ): Promise<InboxOutcome<R>>
  /**
   * Like `processBatch`, in a new transaction that `runBatch` commits. Takes the options of `run`, and starts again after
   * a conflict as `run` does. The batch commits or rolls back as a whole.
   *
   * @throws {DatabaseUnavailableError} as `run` does: if the connection broke during COMMIT, the batch may have committed.
   */
  runBatch<N extends M, R>(
    messages: readonly N[],
    fn: (tx: Tx, fresh: readonly N[], contexts: readonly InboxContext[]) => Promise<R> | R,
    options?: {
      signal?: AbortSignal | undefined
      attempts?: number | undefined
      copy?: boolean | undefined
      onConflict?: ((error: unknown, delayMs: number) => void) | undefined
    },
  ): Promise<{ outcomes: readonly InboxOutcome<undefined>[]; result?: R }>
}
