import type { IsolationLevel } from '../database.ts'
import type { DeadLetterStore } from './dead-letter-store.ts'
import type { GarbageStore } from './garbage-store.ts'
import type { InboxStore } from './inbox-store.ts'
import type { InspectionStore } from './inspection-store.ts'
import type { LeaseStore } from './lease-store.ts'
import type { OutboxStore } from './outbox-store.ts'
import type { RelayStore } from './relay-store.ts'
import type { Session } from './session.ts'
import type { Sleeper, WakeUps } from './wake-ups.ts'
import type { VersionBufferStore } from './version-buffer-store.ts'

/** What core asks of a database. SQL lives behind these: features see values, never statements. */
export interface DatabasePorts {
  /**
   * Recognises what the caller passed as his transaction. Writes nothing.
   *
   * @throws {UnsupportedTransactionError} when it is of no library that is known.
   * @throws {NotInTransactionError} when it is a pool, a root, or a connection without an open transaction.
   * @throws {TransactionAbortedError} when an error has already aborted the transaction.
   */
  bind(handle: unknown): Promise<Session>
  /**
   * Runs a handler and makes sure that the transaction is still the one it was: what the handler throws comes out
   * untouched; when it returns although an error aborted the transaction, or somebody ended it,
   * `TransactionAbortedError`. Costs a round trip only where the library hides what happened.
   */
  watch<R>(session: Session, handler: () => Promise<R> | R): Promise<R>
  /** Does this error, or one of its causes, ask for the transaction to be run again? Never throws, whatever `error` is. */
  isConflict(error: unknown): boolean
  /** Is the error a conflict with a transaction on another cluster node, which lasts until that node's change arrives here? */
  isLastingConflict(error: unknown): boolean
  readonly inbox: InboxStore
  readonly outbox: OutboxStore
  readonly versions: VersionBufferStore
}

/** The ports of a database that has connections of its own. */
export interface ConnectedPorts extends DatabasePorts {
  /**
   * One transaction: opened, handed to `work`, committed when `work` returns, rolled back when it throws. What `work`
   * throws comes out untouched. No retry.
   *
   * BEGIN and the first statement may travel together; a BEGIN that is refused leaves nothing behind.
   *
   * @throws {TransactionConflictError | TransactionAbortedError | DatabaseUnavailableError} of BEGIN and COMMIT; a
   *   COMMIT that failed, or whose answer was lost, is never reported as done.
   */
  transact<R>(
    work: (tx: unknown, session: Session) => Promise<R>,
    options: { readonly isolation?: IsolationLevel | undefined; readonly signal?: AbortSignal | undefined },
  ): Promise<R>
  /** @throws {SchemaError} when the tables are missing or of another revision. */
  checkSchema(): Promise<void>
  /** `statementTimeoutMs`: a statement without an answer by then counts as failed, as a connection may break unnoticed. */
  relay(options: { readonly statementTimeoutMs: number }): RelayStore
  deadLetters(options: { readonly statementTimeoutMs: number }): DeadLetterStore
  /** What a garbage collector removes. */
  garbage(): GarbageStore
  /** For those who look after it. */
  inspection(): InspectionStore
  /** Absent where the database cannot wake anybody, or has no connection to listen on. */
  listen?(sleeper: Sleeper): WakeUps
  /** A lease store of its own connection; `close` it. */
  leases(): LeaseStore
}
