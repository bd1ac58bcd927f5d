import type { Kysely } from 'kysely'
import type { Pool, PoolConnection } from 'mysql2'
import type { ConnectedDatabase, TransactionHandle } from '@txbox/core'
import { mysql } from '@txbox/mysql'
import { libraryUnderTest } from './library-roots.ts'
import { isKysely, kyselyRootOn, kyselyRows, RootTransactions } from './roots.ts'
import type { Root, RootOptions, Row } from './target.ts'

export function mysql2Root(pool: Pool, options: RootOptions, style: 'promise' | 'callback'): Root {
  const transactions = new RootTransactions(execOn)
  const db = pool.promise()
  return {
    db,
    database: mysql({ db, ...prefixOf(options) }) as unknown as ConnectedDatabase<TransactionHandle>,
    async begin() {
      const connection = await db.getConnection()
      await connection.beginTransaction()
      const tx = style === 'promise' ? connection : (connection.connection as unknown as PoolConnection)
      return transactions.add(tx, async (statement) => {
        try {
          await connection.query(statement)
          connection.release()
        } catch (error) {
          connection.destroy()
          throw error
        }
      })
    },
    rollBackAll: () => transactions.rollBackAll(),
    async close() {
      await transactions.rollBackAll()
      // A connection that a test has cut reports an error when it is closed.
      await db.end().catch(() => undefined)
    },
  }
}

export function kyselyRoot(db: Kysely<object>, options: RootOptions): Root {
  return kyselyRootOn(db, mysql({ db, ...prefixOf(options) }), execOn)
}

function prefixOf(options: RootOptions): { prefix?: string } {
  return options.schema === undefined ? {} : { prefix: options.schema }
}

/** SQL through a handle of any kind. */
export async function execOn(
  tx: TransactionHandle,
  sql: string,
  parameters: readonly unknown[],
): Promise<readonly Row[]> {
  if (libraryUnderTest !== undefined) return libraryUnderTest.exec(tx, sql, parameters)
  if (isKysely(tx)) return kyselyRows(tx, sql, parameters)
  const connection =
    (tx as unknown as { connection?: PoolConnection }).connection ?? (tx as unknown as PoolConnection)
  return new Promise((resolve, reject) => {
    connection.query({ sql, values: [...parameters] }, (error, rows) => {
      if (error !== null) reject(error)
      else resolve(Array.isArray(rows) ? (rows as Row[]) : [])
    })
  })
}
