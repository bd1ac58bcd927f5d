import type { TransactOptions } from './transact-options.ts'
import type { DeadLetterStore } from './dead-letter-store.ts'
import type { DedupLeaseStore } from './dedup-lease-store.ts'
import type { GarbageStore } from './garbage-store.ts'
import type { InboxStore } from './inbox-store.ts'
import type { InspectionStore } from './inspection-store.ts'
import type { Loss } from '../errors/lost-connection.ts'
import type { LeaseStore } from './lease-store.ts'
import type { LocalStore } from './local-store.ts'
import type { OutboxStore } from './outbox-store.ts'
import type { QueueSender, QueueStore } from './queue-store.ts'
import type { RelayStore } from './relay-store.ts'
import type { RowStore } from './row-store.ts'
import type { Session } from './session.ts'
import type { SubscriptionRemovalStore } from './subscription-removal.ts'
import type { SubscriptionStore } from './subscription-store.ts'
import type { TableStore } from './table-store.ts'
import type { Sleeper, WakeUps } from './wake-ups.ts'
import type { VersionBufferStore } from './version-buffer-store.ts'

/** The operations that a database implements. All SQL is behind these ports: features pass values, never statements. */
export interface DatabasePorts {
  /**
   * Recognizes the transaction handle that the caller passed, and returns its session. A session of `transact` is
   * returned unchanged. Writes nothing.
   *
   * @throws {UnsupportedTransactionError} when the handle belongs to no known library.
   * @throws {NotInTransactionError} when the handle is a pool, a root, or a connection without an open transaction.
   * @throws {TransactionAbortedError} when an error has already aborted the transaction.
   */
  bind(handle: unknown): Promise<Session>
  /**
   * Runs a handler without a claim in the transaction of the session, with the checks that `HandlerGuard` documents: the
   * transaction must not have ended before the handler, and must be open and usable when the handler returns. Before the
   * handler starts, BEGIN has been sent.
   *
   * @throws {NotInTransactionError} when the transaction has ended before the handler, which is then not called.
   * @throws {TransactionAbortedError} when the handler returns although an error aborted the transaction, or the
   *   handler ended the transaction.
   */
  watch<R>(session: Session, handler: () => Promise<R> | R): Promise<R>
  /**
   * Returns whether this error, or one of its causes, asks for the transaction to be run again. Never throws, whatever
   * `error` is.
   */
  isConflict(error: unknown): boolean
  /**
   * Returns whether the error is a conflict with a transaction on another cluster node, which lasts until that node's
   * change arrives here.
   */
  isLastingConflict(error: unknown): boolean
  readonly inbox: InboxStore
  readonly outbox: OutboxStore
  readonly queueSender: QueueSender
  readonly versions: VersionBufferStore
  readonly rows: RowStore
}

/** The ports of a database that can open connections of its own. */
export interface ConnectedPorts extends DatabasePorts {
  /**
   * Opens a transaction, passes it to `work`, commits when `work` returns, and rolls back when `work` throws. An error
   * that `work` throws is rethrown unchanged. There is no retry. When the signal is aborted while `work` runs, the
   * transaction is rolled back and `transact` rejects with the signal's reason, without waiting for `work`; what `work`
   * does later is in no transaction. Only with a library that hides its connection does it wait for `work` first.
   *
   * BEGIN and the first statement may be sent together. If BEGIN is refused, the first statement must have no effect.
   *
   * With `idleLimitMs`, the server rolls the transaction back when no statement was sent for so long, because the process is frozen
   * or cut off. On MySQL and MariaDB, only with the roots of mysql2 and mariadb; on PostgreSQL not on PGlite, which is a part of the
   * process, nor with a library on top of postgres.js.
   *
   * @throws {TransactionConflictError | TransactionAbortedError | DatabaseUnavailableError} when BEGIN or COMMIT fails.
   *   A COMMIT that failed, or whose answer was lost, is never reported as successful.
   */
  transact<R>(
    work: (tx: unknown, session: Session) => Promise<R>,
    options: Readonly<TransactOptions & { idleLimitMs?: number | undefined }>,
  ): Promise<R>
  /**
   * Returns what was lost when `transact` rejected with this error: in a statement of the work, or in COMMIT. Asks the server on
   * another connection if the transaction's connection has ended. Never rejects.
   */
  lossOf(error: unknown): Promise<Loss>
  /** @throws {SchemaError} when the tables are missing or have another revision. */
  checkSchema(): Promise<void>
  tables(): TableStore
  /**
   * Records that a part of txbox, such as a relay, may need so many connections at once, until the returned function is called.
   * Warns once if all parts on one pool together may need more than the pool opens.
   */
  useConnections?(part: string, connections: number): () => void
  /** Returns how many connections the pool opens at most; `undefined` if it does not show that. */
  maxConnections?(): number | undefined
  /**
   * Returns the store of a relay. A statement without an answer within `statementTimeoutMs` counts as failed, because a
   * connection may break unnoticed.
   */
  relay(options: { readonly statementTimeoutMs: number }): RelayStore
  /**
   * Returns the store of the dead letters of the outbox, with `queue` those of a stored queue, or with `local` those of the
   * local consumers. A statement without an answer within `statementTimeoutMs` counts as failed.
   */
  deadLetters(options: {
    readonly statementTimeoutMs: number
    readonly queue?: string
    readonly local?: boolean
  }): DeadLetterStore
  /**
   * Returns the store of the stored queues. A statement without an answer within `statementTimeoutMs` counts as failed,
   * and one of a receive without an `attempt`, which waits for no lock, within `receiveTimeoutMs`.
   */
  queue(options: { readonly statementTimeoutMs: number; readonly receiveTimeoutMs?: number }): QueueStore
  /**
   * Returns the store of the local consumers. A statement outside of the transactions of handlers that has no answer within
   * `statementTimeoutMs` counts as failed.
   */
  local(options: { readonly statementTimeoutMs: number }): LocalStore
  subscriptions(): SubscriptionStore
  /** Returns the store of claims under a lease. A statement without an answer within `statementTimeoutMs` counts as failed. */
  dedupLeases(options: { readonly statementTimeoutMs: number }): DedupLeaseStore
  removals(): SubscriptionRemovalStore
  garbage(): GarbageStore
  inspection(): InspectionStore
  /**
   * Listens for new messages of relays. Absent when the database cannot notify, or has no connection to listen on. With `isDefault`,
   * nobody has asked for it: a connection through a pooler then does not listen.
   */
  listen?(sleeper: Sleeper, how?: { readonly isDefault: boolean }): WakeUps
  /** Listens for new messages of a queue. With `isDefault`, like `listenToLocal`, and on the same connection. */
  listenToQueue?(queue: string, sleeper: Sleeper, how?: { readonly isDefault: boolean }): WakeUps
  /** Listens for new messages of all local consumers, on one connection of this process, which does not listen through a pooler. */
  listenToLocal?(sleeper: Sleeper): WakeUps
  /**
   * Returns a lease store with its own connection; the caller must `close` the store. A statement without an answer within
   * `statementTimeoutMs` counts as failed. @default 5000
   */
  leases(options?: { readonly statementTimeoutMs?: number }): LeaseStore
}
