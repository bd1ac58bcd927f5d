import { CompiledQuery, type Kysely, type Transaction } from 'kysely'
import { Pool, type Client, type PoolConfig } from 'pg'
import type { ConnectedDatabase, TransactionHandle } from '@txbox/core'
import { postgres } from '@txbox/postgres'
import type { OpenTransaction, Root, RootOptions, Row } from './target.ts'

/** A pool whose connections tests may kill. */
export function poolOf(url: string, config: PoolConfig): Pool {
  const pool = new Pool({ connectionString: url, max: 4, ...config })
  // Tests kill connections on purpose; an idle one that breaks must not end the process.
  pool.on('error', () => undefined)
  pool.on('connect', (client) => void client.on('error', () => undefined))
  return pool
}

export function pgRoot(pool: Pool, options: RootOptions): Root {
  const open = new Set<OpenTransaction>()
  return {
    db: pool,
    database: postgres({ db: pool, ...schemaOf(options) }) as unknown as ConnectedDatabase<TransactionHandle>,
    async begin() {
      const client = await pool.connect()
      await client.query('BEGIN')
      return transactionOn(open, client, async (statement) => {
        try {
          await client.query(statement)
          client.release()
        } catch (error) {
          client.release(true)
          throw error
        }
      })
    },
    async close() {
      await rollBackAll(open)
      await pool.end()
    },
  }
}

export function kyselyRoot(db: Kysely<object>, options: RootOptions): Root {
  const open = new Set<OpenTransaction>()
  return {
    db,
    database: postgres({ db, ...schemaOf(options) }) as unknown as ConnectedDatabase<TransactionHandle>,
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
      await db.destroy()
    },
  }
}

async function rollBackAll(open: ReadonlySet<OpenTransaction>): Promise<void> {
  for (const transaction of open) await transaction.rollback().catch(() => undefined)
}

function schemaOf(options: RootOptions): { schema?: string } {
  return options.schema === undefined ? {} : { schema: options.schema }
}

function transactionOn(
  open: Set<OpenTransaction>,
  tx: TransactionHandle,
  finish: (how: 'commit' | 'rollback') => Promise<void>,
): OpenTransaction {
  const exec: OpenTransaction['exec'] = (sql, parameters = []) => execOn(tx, sql, parameters)
  const end = (how: 'commit' | 'rollback'): Promise<void> => {
    open.delete(transaction)
    return finish(how)
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
  if (isKysely(tx)) {
    return (await tx.executeQuery<Row>(CompiledQuery.raw(numbered(sql), [...parameters]))).rows
  }
  return (await (tx as unknown as Client).query<Row>(numbered(sql), [...parameters])).rows
}

function isKysely(tx: object): tx is Transaction<object> {
  return 'isTransaction' in tx
}

/** `?` is the parameter of tests on every engine; PostgreSQL numbers them. */
export function numbered(sql: string): string {
  let number = 0
  return sql.replaceAll('?', () => `$${(number += 1)}`)
}
