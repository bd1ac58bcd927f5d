import { Kysely, PostgresDialect } from 'kysely'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { kyselyRoot } from '../../packages/sql/src/transactions/drivers/kysely-root.ts'
import { useDatabaseUrl } from '../cli/use-database-url.ts'
import { poolOf } from '../support/engines/postgres-pool.ts'

const database = useDatabaseUrl()

// Kysely adds no listener for the errors of such a connection, so that a reset of it would end the process.
test('a statement without an answer opens no connection beside those of the pool', async () => {
  let clients = 0
  class CountedClient extends Client {
    constructor(config?: ConstructorParameters<typeof Client>[0]) {
      super(config)
      clients += 1
    }
  }
  const pool = poolOf(database.url, { max: 1, Client: CountedClient })
  const db = new Kysely<object>({ dialect: new PostgresDialect({ pool }) })
  onTestFinished(() => db.destroy())
  const query = (sql: string, timeoutMs: number): Promise<unknown> =>
    kyselyRoot.query(db as never, sql, [], timeoutMs)
  await expect(query('select pg_sleep(1)', 100)).rejects.toThrow(/timeout/)
  const connection = await kyselyRoot.connect(db as never)
  const slept = connection.query('select pg_sleep(0.2)', []).catch((error: unknown) => error)
  connection.release(true)
  await slept
  // The pool's only connection serves again, once it has answered.
  expect(await query('select 1 as one', 5000)).toMatchObject({ rows: [{ one: 1 }] })
  expect(clients).toBe(1)
})
