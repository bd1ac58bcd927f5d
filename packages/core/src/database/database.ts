import { InvalidOptionError } from '../errors/errors.ts'
import { nameOf } from '../text/name-of.ts'
import type { ConnectedPorts, DatabasePorts } from '../ports/database-ports.ts'
import type { TransactOptions } from '../ports/transact-options.ts'

/**
 * The property of a database that holds its ports. The symbol is registered, so that two installed copies of this
 * package use the same one. Not part of the public API.
 */
export const portsKey: unique symbol = Symbol.for('txbox.ports') as never
declare const opens: unique symbol

/**
 * A database as `postgres()` or `mysql()` returns it. A `Database` is enough for `inbox.process` and `outbox.publish`,
 * which work in the caller's transaction.
 */
export interface Database {
  readonly engine: 'postgres' | 'mysql' | 'mariadb' | 'memory'
  readonly [portsKey]: DatabasePorts
}

/**
 * A database that can open its own transactions and connections, as `inbox.run`, the relay and the garbage collector
 * require.
 */
export interface ConnectedDatabase<Tx> extends Database {
  readonly [opens]: (tx: Tx) => void
  readonly [portsKey]: ConnectedPorts
  /**
   * Runs `work` in a new transaction and commits the transaction. There is no retry. If `work` throws, the transaction
   * is rolled back and the error is rethrown unchanged.
   *
   * @throws {InvalidOptionError} for an unknown or invalid option; nothing was sent to the server.
   * @throws {TransactionConflictError} when COMMIT failed with an error that asks for another attempt.
   * @throws {TransactionAbortedError} when the server answered COMMIT with a rollback.
   * @throws {DatabaseUnavailableError} when there is no connection, or the connection broke. If the answer to COMMIT
   *   was lost, the transaction may have committed.
   */
  transact<R>(work: (tx: Tx) => Promise<R>, options?: TransactOptions): Promise<R>
}

/** A root of any library. The type of the property is a sentence for the compiler's error if a {@link Database} is passed. */
export type AnyRoot = object & {
  readonly [portsKey]?: 'txbox: pass the pool or root itself, not the result of postgres() or mysql()'
}

/** @throws {InvalidOptionError} when `database` is not a database. */
export function portsOf(where: string, database: unknown): DatabasePorts {
  const ports: unknown =
    typeof database === 'object' && database !== null ? Reflect.get(database, portsKey) : undefined
  if (typeof ports !== 'object' || ports === null) {
    throw new InvalidOptionError(
      `${where}: the option 'database' must be the result of postgres() or mysql(), not ` +
        `${nameOf(database)}.`,
    )
  }
  return ports as DatabasePorts
}

/**
 * Like {@link portsOf}, for features that open their own connections.
 *
 * @throws {InvalidOptionError} when the database has no `db`.
 */
export function connectedPortsOf(where: string, database: unknown): ConnectedPorts {
  const ports = portsOf(where, database)
  if (!isConnected(ports)) {
    throw new InvalidOptionError(
      `${where}: the option 'database' cannot open connections. Pass your pool or root to it: postgres({ db }).`,
    )
  }
  return ports
}

export function isConnected(ports: DatabasePorts): ports is ConnectedPorts {
  return 'relay' in ports
}
