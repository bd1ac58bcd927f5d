import type { Consumer, LocalConsumer } from '@txbox/consumer'
import type { InTransaction, IsolationLevel, OneOrMore, StoredId } from '@txbox/core'
import type { GarbageCollector } from '@txbox/gc'
import type { Inbox } from '@txbox/inbox'
import type { LocalOnlyMessage, MessageOf } from '@txbox/outbox'
import type { DeadLetters, Relay } from '@txbox/relay'

/** A message for `box.publish`. A `topic` is needed only if a relay publishes the message, too. */
export type TxboxMessage = MessageOf<Record<string, unknown>> | LocalOnlyMessage

/** A part of a box has trouble: a broker or the database is away, or an unexpected error. The part goes on by itself. */
export interface TxboxTrouble {
  /** `'relay'`, `'gc'`, or the name of a consumer or source. */
  readonly part: string
  readonly error: unknown
}

/** What a `drain` has done. */
export interface TxboxDrained {
  /** The number of messages that were handled; a message counts at each consumer. */
  readonly handled: number
  /** The number of messages that the relay has published. */
  readonly published: number
  /**
   * How often a message was put aside until its next attempt: because its handler has failed, because the broker has refused it, or
   * because it stands behind such a message of its key.
   */
  readonly parked: number
  /** The number of messages that have become dead letters. */
  readonly deadLettered: number
  /**
   * The number of messages that are due and not done, because the deadline had come: at the consumers of the box, and in its outbox
   * if the box has a relay. At most 1,000,000 of each consumer; some 10,000 of the outbox. `NaN` if the database has not counted
   * them within a second after the deadline.
   */
  readonly left: number
  /** By the name of the local consumer. */
  readonly consumers: Readonly<Record<string, { readonly handled: number; readonly left: number }>>
}

/** What a readiness probe needs to know. */
export interface TxboxHealth {
  /** Whether all parts are ok: the box runs, and none of them has reported a trouble that may last. */
  readonly ok: boolean
  /**
   * The parts by name: `relay` and `gc`, if the box has them, and its consumers and sources. `reason` says why a part is not ok.
   */
  readonly parts: Readonly<Record<string, { readonly ok: boolean; readonly reason?: string }>>
  /**
   * For how long the oldest message has been due that the consumers or the relay of this box should have handled; 0 if none is due.
   * `NaN` if the database does not answer within 5 s: then no part is ok.
   */
  readonly oldestDueMs: number
}

/** Stores messages in transactions, and runs the parts that handle and publish them. */
export interface Txbox<
  Tx,
  Name extends string = string,
  SourceName extends string = string,
> extends AsyncDisposable {
  /**
   * Checks or creates the tables, registers the consumers, and starts the consumers, the sources, the relay and the collector. Any
   * number of processes may start at the same time.
   *
   * @throws {SchemaError | DatabaseUnavailableError | DatabaseAccessError | InvalidOptionError} before anything runs; `start` may be
   *   called again.
   * @throws {StartError} when a part could not start, which the error names. The other parts are stopped, and the box with them.
   */
  start(): Promise<void>
  /**
   * Runs `work` in a new transaction and commits. If the database asks for another attempt (deadlock, serialization failure), the
   * work runs again in a new transaction, as `inbox.run` does it. Inside another transaction of the box, the call joins it: there
   * is one COMMIT, that of the outer call, and an error that the caller catches does not roll back by itself.
   *
   * @throws {InvalidOptionError} for a wrong option, and for `isolation` inside another transaction.
   * @throws the error of `work`, and the errors of `database.transact`.
   */
  transact<R>(
    work: (tx: Tx) => Promise<R>,
    options?: {
      /** @default the server's default */
      isolation?: IsolationLevel | undefined
      /** The maximum number of attempts, 1 to 100. @default 5 */
      attempts?: number | undefined
      /** Aborting the signal rolls back. */
      signal?: AbortSignal | undefined
    },
  ): Promise<R>
  /**
   * Stores a message, or several with one statement, in the transaction: for each consumer of the box, each consumer that is
   * registered in the database, and those of `subscriptions` that subscribe to its type; and for the relay if it has a `topic`.
   *
   * @throws the errors of an outbox's `publish`.
   */
  publish<H extends object, M extends TxboxMessage | readonly TxboxMessage[]>(
    tx: H & InTransaction<H>,
    message: OneOrMore<TxboxMessage, M>,
  ): Promise<M extends readonly unknown[] ? readonly StoredId[] : StoredId>
  /**
   * Stores a message, or several, in the transaction in which the caller runs: that of `box.transact`, or of a handler of this box.
   *
   * @throws {NotInTransactionError} anywhere else: in a handler that `atLeastOnce` has marked, or after the transaction has ended.
   */
  publish<M extends TxboxMessage | readonly TxboxMessage[]>(
    message: OneOrMore<TxboxMessage, M>,
  ): Promise<M extends readonly unknown[] ? readonly StoredId[] : StoredId>
  /**
   * Handles and publishes what is due, and returns: for cron jobs and functions, also without `start`. Checks or creates the tables
   * first, as `start` does. Messages that handlers publish are part of it; sources of brokers and retries that are not due are not.
   *
   * @throws {DatabaseUnavailableError} also when the tables and the subscriptions were not ready at the deadline. Nothing was handled.
   * @throws {InvalidOptionError} for an unknown or wrong option, and the errors of `start`.
   */
  drain(options?: {
    /** When to return although messages are left, in milliseconds from now, 1 ms to 24 h. @default no limit */
    deadlineMs?: number | undefined
  }): Promise<TxboxDrained>
  /** Asks the parts and the database how they are. Never rejects. */
  health(): Promise<TxboxHealth>
  /** Calls `listener` for each trouble of a part. @returns a function that removes the listener. */
  on(event: 'trouble', listener: (event: TxboxTrouble) => void): () => void
  /**
   * Stops all parts: begins nothing more, lets running handlers and calls end, and gives up the rest shortly before the time limit.
   * Resolves within it, whatever hangs. A second call is the first; with a shorter time it ends the first one, too. The pool stays
   * open: it is yours.
   */
  stop(options?: {
    /** In milliseconds, 0 to 1 h. @default the option `stopTimeoutMs` of the box */
    timeoutMs?: number | undefined
  }): Promise<void>
  /** Resolves when the box has stopped. */
  readonly stopped: Promise<void>
  /** The local consumers of the box. */
  readonly consumers: Readonly<Record<Name, LocalConsumer>>
  /** The consumers of the sources of the box. */
  readonly sources: Readonly<Record<SourceName, Consumer>>
  /** `undefined` without a `publisher`, or with `relay: false`. */
  readonly relay: Relay | undefined
  /** `undefined` with `gc: false`. */
  readonly gc: GarbageCollector | undefined
  readonly deadLetters: DeadLetters
  /**
   * Returns the inbox of a consumer on the database of the box, for messages that arrive in another way, such as webhooks. In its
   * handlers, `box.publish(message)` takes their transaction.
   *
   * @throws {InvalidOptionError} for a name of more than 100 characters, or one that begins with `@`.
   */
  inbox(consumer: string): Inbox<Tx>
}
