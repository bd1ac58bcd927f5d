import type { Kysely } from 'kysely'
import type { Client, Pool } from 'pg'
import type { ConnectedDatabase, TransactionHandle } from '@txbox/core'
import { postgres } from '@txbox/postgres'
import { libraryUnderTest } from './library-roots.ts'
import { numbered } from './postgres-pool.ts'
import { isKysely, kyselyRootOn, kyselyRows, RootTransactions } from './roots.ts'
import type { Root, RootOptions, Row } from './target.ts'

export function pgRoot(pool: Pool, options: RootOptions): Root {
  const transactions = new RootTransactions(execOn)
  return {
    db: pool,
    database: postgres({ db: pool, ...schemaOf(options) }) as unknown as ConnectedDatabase<TransactionHandle>,
    async begin() {
      const client = await pool.connect()
      await client.query('BEGIN')
      return transactions.add(client, async (statement) => {
        try {
          await client.query(statement)
          client.release()
        } catch (error) {
          client.release(true)
          throw error
        }
      })
    },
    rollBackAll: () => transactions.rollBackAll(),
    async close() {
      await transactions.rollBackAll()
      await pool.end()
    },
  }
}

export function kyselyRoot(db: Kysely<object>, options: RootOptions): Root {
  return kyselyRootOn(db, postgres({ db, ...schemaOf(options) }), execOn)
}

function schemaOf(options: RootOptions): { schema?: string } {
  return options.schema === undefined ? {} : { schema: options.schema }
}

/** SQL through a handle of any kind. */
export async function execOn(
  tx: TransactionHandle,
  sql: string,
  parameters: readonly unknown[],
): Promise<readonly Row[]> {
  if (libraryUnderTest !== undefined) return libraryUnderTest.exec(tx, numbered(sql), parameters)
  if (isKysely(tx)) return kyselyRows(tx, numbered(sql), parameters)
  return (await (tx as unknown as Client).query<Row>(numbered(sql), [...parameters])).rows
}
