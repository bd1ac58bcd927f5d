import { CompiledQuery, type Kysely, type Transaction } from 'kysely'
import { inject } from 'vitest'
import { createPool, type Pool, type PoolConnection, type PoolOptions } from 'mysql2'
import type { ConnectedDatabase, TransactionHandle } from '@txbox/core'
import { mysql } from '@txbox/mysql'
import type { OpenTransaction, Root, RootOptions, Row } from './target.ts'

/** A pool whose connections tests may kill. `setup`: statements that each new connection begins with. */
export function poolOf(url: string, config: PoolOptions, setup: readonly string[] = []): Pool {
  const { hostname, port, username, password, pathname } = new URL(url)
  const pool = createPool({
    host: hostname,
    port: Number(port === '' ? 3306 : port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: pathname.slice(1),
    connectionLimit: 4,
    ...config,
  })
  pool.on('connection', (connection: PoolConnection) => {
    connection.on('error', () => undefined)
    for (const statement of setup) connection.query(statement)
  })
  return pool
}

/** Statements that give all transactions of a connection this level. */
export function setupOf({ isolation }: RootOptions): readonly string[] {
  if (isolation === undefined) return []
  const snapshot = isolation === 'snapshot isolation'
  return [
    `set session transaction isolation level ${snapshot ? 'repeatable read' : isolation}`,
    ...(inject('hasSnapshotIsolation')
      ? [`set session innodb_snapshot_isolation = ${snapshot ? 'on' : 'off'}`]
      : []),
  ]
}

export function mysql2Root(pool: Pool, options: RootOptions, style: 'promise' | 'callback'): Root {
  const open = new Set<OpenTransaction>()
  const db = pool.promise()
  return {
    db,
    database: mysql({ db, ...prefixOf(options) }) as unknown as ConnectedDatabase<TransactionHandle>,
    async begin() {
      const connection = await db.getConnection()
      await connection.beginTransaction()
      const tx = style === 'promise' ? connection : (connection.connection as unknown as PoolConnection)
      return transactionOn(open, tx, async (statement) => {
        try {
          await connection.query(statement)
          connection.release()
        } catch (error) {
          connection.destroy()
          throw error
        }
      })
    },
    async close() {
      await rollBackAll(open)
      // A connection that a test has cut says so when it is closed.
      await db.end().catch(() => undefined)
    },
  }
}

export function kyselyRoot(db: Kysely<object>, options: RootOptions): Root {
  const open = new Set<OpenTransaction>()
  return {
    db,
    database: mysql({ db, ...prefixOf(options) }) as unknown as ConnectedDatabase<TransactionHandle>,
    async begin() {
      // A transaction of Kysely's lasts as long as its callback: this one waits to be told how to end.
      const begun = Promise.withResolvers<Transaction<object>>()
      const end = Promise.withResolvers<'commit' | 'rollback'>()
      const rolledBack = new Error('rolled back')
      const ended = db
        .transaction()
        .execute(async (tx) => {
          begun.resolve(tx)
          if ((await end.promise) === 'rollback') throw rolledBack
        })
        .catch((error: unknown) => {
          begun.reject(error)
          if (error !== rolledBack) throw error
        })
      ended.catch(() => undefined)
      return transactionOn(open, await begun.promise, async (statement) => {
        end.resolve(statement)
        await ended
      })
    },
    async close() {
      await rollBackAll(open)
      await db.destroy().catch(() => undefined)
    },
  }
}

async function rollBackAll(open: ReadonlySet<OpenTransaction>): Promise<void> {
  for (const transaction of open) await transaction.rollback().catch(() => undefined)
}

function prefixOf(options: RootOptions): { prefix?: string } {
  return options.schema === undefined ? {} : { prefix: options.schema }
}

function transactionOn(
  open: Set<OpenTransaction>,
  tx: TransactionHandle,
  finish: (how: 'commit' | 'rollback') => Promise<void>,
): OpenTransaction {
  const settings = new Set<string>()
  const exec: OpenTransaction['exec'] = (sql, parameters = []) => {
    // A setting is the connection's, not the transaction's: its next user must not find it.
    const setting = /^set session (\w+) =/.exec(sql)?.[1]
    if (setting !== undefined) settings.add(setting)
    return execOn(tx, sql, parameters)
  }
  const end = async (how: 'commit' | 'rollback'): Promise<void> => {
    open.delete(transaction)
    for (const setting of settings) {
      await execOn(tx, `set session ${setting} = default`, []).catch(() => undefined)
    }
    await finish(how)
  }
  const transaction: OpenTransaction = {
    tx,
    exec,
    savepoint: async (name) => void (await exec(`savepoint ${name}`)),
    rollbackTo: async (name) => void (await exec(`rollback to savepoint ${name}`)),
    commit: () => end('commit'),
    rollback: () => end('rollback'),
  }
  open.add(transaction)
  return transaction
}

/** SQL through a handle of any kind. */
export async function execOn(
  tx: TransactionHandle,
  sql: string,
  parameters: readonly unknown[],
): Promise<readonly Row[]> {
  if (isKysely(tx)) return (await tx.executeQuery<Row>(CompiledQuery.raw(sql, [...parameters]))).rows
  const connection =
    (tx as unknown as { connection?: PoolConnection }).connection ?? (tx as unknown as PoolConnection)
  return new Promise((resolve, reject) => {
    connection.query({ sql, values: [...parameters] }, (error, rows) => {
      if (error !== null) reject(error)
      else resolve(Array.isArray(rows) ? (rows as Row[]) : [])
    })
  })
}

function isKysely(tx: object): tx is Transaction<object> {
  return 'isTransaction' in tx
}
