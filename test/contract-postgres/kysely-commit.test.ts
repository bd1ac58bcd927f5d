import { CompiledQuery, Kysely, PostgresDialect, sql, type DatabaseConnection, type Driver } from 'kysely'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { TransactionAbortedError } from '@txbox/core'
import { createOutbox } from '@txbox/outbox'
import { migrate, postgres } from '@txbox/postgres'
import { useDatabaseUrl } from '../cli/use-database-url.ts'
import { poolOf } from '../support/engines/postgres-pool.ts'

const database = useDatabaseUrl()

beforeAll(async () => {
  const pool = poolOf(database.url, { max: 2 })
  await migrate(pool)
  await pool.end()
})

/** Does not look at the server's answer to COMMIT, like the dialects of other packages, such as `kysely-postgres-js`. */
class OtherDialect extends PostgresDialect {
  override createDriver(): Driver {
    const driver = super.createDriver()
    driver.commitTransaction = async (connection: DatabaseConnection): Promise<void> => {
      await connection.executeQuery(CompiledQuery.raw('commit'))
    }
    return driver
  }
}

test.for([PostgresDialect, OtherDialect])(
  'I7 O2 transact rejects if an error that the work has caught has aborted the transaction: %o',
  async (Dialect) => {
    const db = new Kysely<object>({ dialect: new Dialect({ pool: poolOf(database.url, { max: 2 }) }) })
    onTestFinished(() => db.destroy())
    const own = postgres({ db })
    const outbox = createOutbox({ database: own })
    const transacted = own.transact(async (tx) => {
      await outbox.publish(tx, { topic: 'a', payload: 1 })
      await sql`select 1 / 0`.execute(tx).catch(() => undefined)
    })
    await expect(transacted).rejects.toThrow(TransactionAbortedError)
  },
)
