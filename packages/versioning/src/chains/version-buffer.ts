import type { ConnectedDatabase } from '@txbox/core'
import type { Version } from '../version.ts'

/** A change that leads from one version of its key to a later version. */
export interface VersionedMessage<P = unknown, V extends Version = number> {
  /** The identity of the versioned object, such as an order or an account. 1 to 255 characters. */
  readonly key: string
  /** The version that the change is based on. */
  readonly from: V
  /** The version that the change leads to, greater than `from`. */
  readonly to: V
  /**
   * Any JSON value, up to 10 MiB. `apply` always gets the payload converted to JSON and parsed again, even if the
   * message did not wait.
   */
  readonly payload: P
}

/**
 * Why a message became a dead letter: `'too-many'` messages of its key were waiting; it waited too long (`'too-old'`);
 * its key moved past its `from` by another change (`'diverged'`); or its row was altered by hand and contains no valid
 * message (`'unreadable'`), so that its versions and its payload are shown as text.
 */
export type DeadLetterReason = 'too-many' | 'too-old' | 'diverged' | 'unreadable'

/** A dead letter of a version buffer, which is kept until it is redriven, discarded, or garbage-collected. */
export interface BufferedDeadLetter<P = unknown, V extends Version = number> {
  readonly consumer: string
  readonly message: VersionedMessage<P, V>
  readonly reason: DeadLetterReason
}

/** The outcome of a message. With any of these outcomes, the message can be acknowledged after the commit. */
export type VersionBufferOutcome<V extends Version = number> =
  /** The message was applied, and then `followed` waiting messages. `version` is the new version of the key. */
  | { readonly status: 'applied'; readonly version: V; readonly followed: number }
  /** The key is at `to` or later: the message was applied before. */
  | { readonly status: 'stale'; readonly version: V }
  /** The predecessor of the message is missing. The message is stored and waits. */
  | { readonly status: 'waiting'; readonly version: V }
  /** The predecessor of the message is missing, and the message is stored as a dead letter. */
  | { readonly status: 'dead-lettered'; readonly version: V }

export interface VersionBufferOptions<Tx, P, V extends Version> {
  /** The result of `postgres({ db })` or `mysql({ db })`. */
  database: ConnectedDatabase<Tx>
  /** The name of one logical handler: each consumer has its own versions. 1 to 100 characters. */
  consumer: string
  /**
   * Applies one message in the transaction. An error that `apply` throws is rethrown unchanged; roll back the whole
   * transaction then.
   */
  apply: (tx: Tx, message: VersionedMessage<P, V>) => unknown
  /** The version of a key before its first message. @default 0 */
  firstVersion?: V | undefined
  /**
   * The maximum number of waiting messages of one key, 1 to 10,000. If more messages wait, those with the greatest
   * versions become dead letters.
   * @default 1000
   */
  maxWaiting?: number | undefined
  /**
   * The maximum time that a message waits before it becomes a dead letter, in milliseconds, by the database's clock: 1
   * ms to 100 years.
   * @default 1 day
   */
  maxAgeMs?: number | undefined
  /**
   * Called for each new dead letter: by `process` before the caller's commit, by other methods after the commit. An
   * error that the callback throws is ignored.
   */
  onDeadLetter?: ((event: BufferedDeadLetter<P, V>) => void) | undefined
}

/**
 * Applies the messages of each key in strict order, and stores messages whose predecessor is missing.
 *
 * All methods can throw these errors; nothing is then written: `InvalidMessageError` for an invalid message;
 * `UnsupportedTransactionError` or `NotInTransactionError` if `tx` is not an open transaction; `SchemaError` if the
 * tables are missing or have another revision; `TransactionConflictError` if the database asks for the transaction to
 * be run again; `DatabaseUnavailableError` if the connection breaks.
 */
export interface VersionBuffer<Tx, P = unknown, V extends Version = number> {
  readonly consumer: string
  /**
   * Applies the message, and then the messages that have waited for it, in order. If the predecessor is missing, the
   * message is stored instead, and only once, however often it is delivered. All writes are in the caller's
   * transaction; the caller commits and then acknowledges the message. Messages of one key are processed one after the
   * other, and so are calls in one transaction: `Promise.all` over several messages is safe. `apply` may call `process`
   * with its `tx` for other keys.
   *
   * @throws {ReentrantCallError} when `apply` calls `process` for the key that `apply` works on.
   * @throws {VersionDivergedError} when the key is between `from` and `to`, or another message with the same `from` and
   *   another `to` is stored.
   * @throws {TransactionAbortedError} when `apply` returned although an error had aborted the transaction.
   */
  process(tx: Tx, message: VersionedMessage<P, V>): Promise<VersionBufferOutcome<V>>
  /**
   * Sets the version of a key after a repair by hand, in a new transaction. Messages up to `version` are stale from
   * then on, and messages that have waited for `version` are applied.
   */
  resync(key: string, version: V): Promise<{ readonly version: V; readonly followed: number }>
  /**
   * Turns messages that have waited too long into dead letters. A delivery checks only its own key, so call `sweep`
   * about every minute, or pass the buffer to a garbage collector (`versionBuffers` of `createGarbageCollector`).
   */
  sweep(options?: {
    /** Ends the sweep before the next key. The sweep then resolves with the result so far. */
    signal?: AbortSignal | undefined
  }): Promise<{ readonly deadLettered: number }>
  /** Returns dead letters, ordered by key and version. */
  deadLetters(options?: {
    key?: string | undefined
    /** 1 to 1000. @default 100 */
    limit?: number | undefined
    /** Returns only dead letters after this one. */
    after?: { key: string; from: V } | undefined
  }): Promise<readonly (BufferedDeadLetter<P, V> & { readonly receivedAt: Date; readonly deadAt: Date })[]>
  /**
   * Delivers a dead letter again, in a new transaction.
   *
   * @returns its outcome, or `undefined` if there is no such dead letter.
   */
  redrive(key: string, from: V): Promise<VersionBufferOutcome<V> | undefined>
  /** Removes a dead letter. @returns whether there was such a dead letter. */
  discard(key: string, from: V): Promise<boolean>
}
