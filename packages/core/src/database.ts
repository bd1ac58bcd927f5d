import { InvalidOptionError } from './errors.ts'
import { nameOf } from './options.ts'
import type { ConnectedPorts, DatabasePorts } from './ports/database-ports.ts'
import type { TransactOptions } from './transact-options.ts'

/**
 * Where a database keeps its ports. A registered symbol: two installed copies of this package find each other's.
 * Not part of the public API.
 */
export const portsKey: unique symbol = Symbol.for('txbox.ports') as never
declare const opens: unique symbol

/** The isolation levels that `run` and `transact` take. */
export type IsolationLevel = 'read committed' | 'repeatable read' | 'serializable'

/**
 * A database as `postgres()` and its like make it: enough for `inbox.process` and `outbox.publish`, which work in the
 * caller's transaction.
 */
export interface Database {
  readonly engine: 'postgres' | 'mysql' | 'mariadb' | 'memory'
  readonly [portsKey]: DatabasePorts
}

/** A database that can open transactions and connections of its own: also for `inbox.run`, the relay and the collector. */
export interface ConnectedDatabase<Tx> extends Database {
  readonly [opens]: (tx: Tx) => void
  readonly [portsKey]: ConnectedPorts
  /**
   * Runs `work` in one transaction of its own and commits it. No retry. What `work` throws comes out untouched, after
   * the rollback.
   *
   * @throws {InvalidOptionError} for an unknown or invalid option; nothing was sent.
   * @throws {TransactionConflictError} when COMMIT asks for another attempt.
   * @throws {TransactionAbortedError} when COMMIT was answered by a rollback.
   * @throws {DatabaseUnavailableError} when there is no connection, or it broke; a COMMIT whose answer was lost may
   *   have happened.
   */
  transact<R>(work: (tx: Tx) => Promise<R>, options?: TransactOptions): Promise<R>
}

/** The ports of a database that was passed as an option. @throws {InvalidOptionError} when it is none. */
export function portsOf(where: string, database: unknown): DatabasePorts {
  const ports: unknown =
    typeof database === 'object' && database !== null ? Reflect.get(database, portsKey) : undefined
  if (typeof ports !== 'object' || ports === null) {
    throw new InvalidOptionError(
      `${where}: the option 'database' must be what postgres() or another database of txbox returns, not ` +
        `${nameOf(database)}.`,
    )
  }
  return ports as DatabasePorts
}

/** As {@link portsOf}, for what needs connections of its own. @throws {InvalidOptionError} without a `db`. */
export function connectedPortsOf(where: string, database: unknown): ConnectedPorts {
  const ports = portsOf(where, database)
  if (!isConnected(ports)) {
    throw new InvalidOptionError(
      `${where}: the database has no connections of its own. Give it your pool or root: postgres({ db }).`,
    )
  }
  return ports
}

export function isConnected(ports: DatabasePorts): ports is ConnectedPorts {
  return 'relay' in ports
}
