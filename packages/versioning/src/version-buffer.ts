import type { ConnectedDatabase } from '@txbox/core'
import type { Version } from './version.ts'

/** A change that leads from one version of its key to a later one. */
export interface VersionedMessage<P = unknown, V extends Version = number> {
  /** What has the versions: an order, an account. 1 to 255 characters. */
  readonly key: string
  /** The version that the change was made on. */
  readonly from: V
  /** The version that it leads to: greater. */
  readonly to: V
  /** JSON, up to 10 MiB: `apply` gets it as JSON gives it back, whether it had to wait or not. */
  readonly payload: P
}

/**
 * Why a message was given up: its key had too many waiting, it waited too long, or its key went past its beginning
 * another way.
 */
export type DeadLetterReason = 'too-many' | 'too-old' | 'diverged'

/** A message that was given up, and is kept until it is redriven, discarded, or collected as garbage. */
export interface BufferedDeadLetter<P = unknown, V extends Version = number> {
  readonly consumer: string
  readonly message: VersionedMessage<P, V>
  readonly reason: DeadLetterReason
}

/** What became of a message. It may be acknowledged after the commit, whichever it was. */
export type VersionBufferOutcome<V extends Version = number> =
  /** It was applied, and after it `followed` messages that had waited. `version`: where its key is now. */
  | { readonly status: 'applied'; readonly version: V; readonly followed: number }
  /** Its key is at `to` or past it: applied before. */
  | { readonly status: 'stale'; readonly version: V }
  /** Its predecessor is missing. It is stored, now or before. */
  | { readonly status: 'waiting'; readonly version: V }
  /** Its predecessor is missing, and it is kept as a dead letter. */
  | { readonly status: 'dead-lettered'; readonly version: V }

export interface VersionBufferOptions<Tx, P, V extends Version> {
  database: ConnectedDatabase<Tx>
  /** The name of one logical handler: each has versions of its own. 1 to 100 characters. */
  consumer: string
  /**
   * Applies one message, in the transaction. What it throws comes out untouched, and rolls all of the delivery back.
   */
  apply: (tx: Tx, message: VersionedMessage<P, V>) => unknown
  /** The version of a key before its first message. @default 0 */
  firstVersion?: V | undefined
  /**
   * How many messages of one key may wait; beyond it the last ones of the chain become dead letters. 1 to 10 000.
   * @default 1000
   */
  maxWaiting?: number | undefined
  /**
   * How long a message may wait, by the database's clock, before it becomes a dead letter. 1 ms to 100 years.
   * @default 1 day
   */
  maxAgeMs?: number | undefined
  /**
   * Told of each dead letter: in `process` before the caller's commit, elsewhere after it. What it throws is ignored.
   */
  onDeadLetter?: ((event: BufferedDeadLetter<P, V>) => void) | undefined
}

/**
 * Applies the messages of each key in strict order, and lets those wait whose predecessor is missing.
 *
 * All methods throw, with nothing written: `InvalidMessageError` for a message that is none;
 * `UnsupportedTransactionError` or `NotInTransactionError` for a `tx` that is no open transaction; `SchemaError` when
 * the tables are missing or of another revision; `TransactionConflictError` when the database asks for the transaction
 * to be run again; `DatabaseUnavailableError`.
 */
export interface VersionBuffer<Tx, P = unknown, V extends Version = number> {
  readonly consumer: string
  /**
   * Applies the message, and after it those that have waited for it, in order; or stores it when its predecessor is
   * missing, once however often it comes. All in the caller's transaction; the caller commits, and then acknowledges.
   * Messages of one key take turns, and so do calls on one transaction: `Promise.all` over several messages is safe.
   * `apply` may call `process` on its `tx` for other keys.
   *
   * @throws {ReentrantCallError} when `apply` calls `process` for the key that `apply` works on.
   * @throws {VersionDivergedError} when its key is between `from` and `to`, or another message from the same version
   *   waits.
   * @throws {TransactionAbortedError} when `apply` returned although an error had aborted the transaction.
   */
  process(tx: Tx, message: VersionedMessage<P, V>): Promise<VersionBufferOutcome<V>>
  /**
   * Sets where a key is, after a repair by hand: in a transaction of its own, all up to `version` is stale from now on,
   * and what has waited for it follows.
   */
  resync(key: string, version: V): Promise<{ readonly version: V; readonly followed: number }>
  /**
   * Makes dead letters of messages that have waited too long. A delivery looks after its own key only: call `sweep` every
   * minute or so, or let a garbage collector call it (`versionBuffers` of `createGarbageCollector`).
   */
  sweep(options?: {
    /** Ends the sweep before the next key. The sweep then resolves with the work that has been done. */
    signal?: AbortSignal | undefined
  }): Promise<{ readonly deadLettered: number }>
  /** Dead letters by key and version. */
  deadLetters(options?: {
    key?: string | undefined
    /** 1 to 1000. @default 100 */
    limit?: number | undefined
    /** Only those behind this one. */
    after?: { key: string; from: V } | undefined
  }): Promise<readonly (BufferedDeadLetter<P, V> & { readonly receivedAt: Date; readonly deadAt: Date })[]>
  /** Delivers a dead letter anew, in a transaction of its own. → its outcome; `undefined` when there is none. */
  redrive(key: string, from: V): Promise<VersionBufferOutcome<V> | undefined>
  /** Removes a dead letter. → whether there was one. */
  discard(key: string, from: V): Promise<boolean>
}
