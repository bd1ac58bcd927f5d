import type { BorrowedConnection, IsolationLevel, TransactionLibrary } from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'
import { hasFunction, hasObject } from '../members.ts'
import { movedInternals } from './moved-internals.ts'

interface SequelizeRoot {
  transaction<T>(options: TransactionOptions, work: (tx: SequelizeTransaction) => Promise<T>): Promise<T>
  /** Sequelize 7. */
  readonly pool?: Pool7
  /** Sequelize 6. In Sequelize 7, reading it throws. */
  readonly connectionManager?: ConnectionManager6
}
interface TransactionOptions {
  readonly isolationLevel?: string
  /** Sequelize 7. */
  readonly nestMode: 'separate'
}
interface Pool7 {
  acquire(options: { readonly type: 'write' }): Promise<object>
  release(connection: object): void
  destroy(connection: object): Promise<void>
}
interface ConnectionManager6 {
  getConnection(options: { readonly type: 'write'; readonly useMaster: true }): Promise<object>
  releaseConnection(connection: object): void
  destroyConnection(connection: object): Promise<void>
}
interface SequelizeTransaction {
  readonly sequelize: object
  /** The outer transaction of a savepoint. */
  readonly parent?: SequelizeTransaction | null
  readonly finished?: string | undefined
  /** Sequelize 6. */
  readonly connection?: unknown
  /** Sequelize 7. */
  getConnectionIfExists?(): unknown
}

/** Sequelize 6.37 and 7.0.0-alpha.48, on pg and mysql2. */
export const sequelize: TransactionLibrary<SequelizeTransaction, SequelizeRoot> = {
  name: 'Sequelize',
  recognises: (handle): handle is SequelizeTransaction => isTransaction(handle) || isRoot(handle),
  connectionOf(handle) {
    if (isRoot(handle) || !isOpen(handle)) return undefined
    const connection = handle.getConnectionIfExists?.() ?? handle.connection
    if (connection === undefined || connection === null) {
      throw movedInternals('Sequelize', 'transaction.connection', '6.37 and 7.0.0-alpha.48')
    }
    return connection
  },
  isOpen,
  root: {
    recognises: isRoot,
    borrow,
    maxConnections: (root) => maxOf(root),
    transact: (root, work, isolation) => root.transaction(optionsOf(isolation), work),
  },
}

/**
 * Sequelize copies the level into a statement unchanged. With another mode, Sequelize 7 would join a transaction that is open
 * in the same async context.
 */
function optionsOf(isolation: IsolationLevel | undefined): TransactionOptions {
  const nestMode = 'separate'
  return isolation === undefined ? { nestMode } : { nestMode, isolationLevel: isolation.toUpperCase() }
}

async function borrow(root: SequelizeRoot): Promise<BorrowedConnection> {
  const { pool } = root
  if (pool !== undefined) {
    const connection = await pool.acquire({ type: 'write' })
    return {
      connection,
      giveBack: (broken) => (broken ? discard(connection, pool) : pool.release(connection)),
    }
  }
  const manager = root.connectionManager!
  const connection = await manager.getConnection({ type: 'write', useMaster: true })
  const destroy = (): Promise<void> => manager.destroyConnection(connection)
  return {
    connection,
    giveBack: (broken) => (broken ? discard(connection, { destroy }) : manager.releaseConnection(connection)),
  }
}

/**
 * Before closing a connection to MySQL, Sequelize sends a message that waits for the statement in flight, which the
 * server may never answer. So the connection itself is destroyed first.
 */
function discard(connection: object, pool: Pick<Pool7, 'destroy'>): Promise<void> {
  const destroy = propertyOf(connection, 'destroy')
  if (typeof destroy === 'function') destroy.call(connection)
  return pool.destroy(connection)
}

/** With replication, there is one pool for writes and one for reads. */
function maxOf(root: SequelizeRoot): number | undefined {
  const of = root.pool ?? propertyOf(root.connectionManager, 'pool')
  const max = propertyOf(propertyOf(of, 'write') ?? of, 'maxSize')
  return typeof max === 'number' ? max : undefined
}

/** A savepoint does not notice that its outer transaction has ended. */
function isOpen(handle: SequelizeTransaction): boolean {
  for (let at: SequelizeTransaction | null | undefined = handle; at; at = at.parent) {
    if (at.finished !== undefined) return false
  }
  return true
}

function isTransaction(value: unknown): boolean {
  return hasObject(value, 'sequelize') && hasFunction(value, 'commit') && hasObject(value, 'LOCK')
}

function isRoot(value: unknown): value is SequelizeRoot {
  return (
    hasFunction(value, 'define') &&
    hasFunction(value, 'authenticate') &&
    hasFunction(value, 'transaction') &&
    (hasObject(value, 'pool') || hasObject(value, 'connectionManager'))
  )
}
