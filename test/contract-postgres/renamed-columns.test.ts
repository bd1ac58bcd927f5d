import { Pool } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { UnsupportedTransactionError, sqlTransaction } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { migrate, postgres } from '@txbox/postgres'
import { useDatabaseUrl } from '../cli/use-database-url.ts'

const database = useDatabaseUrl()
let pool: Pool

beforeAll(async () => {
  pool = new Pool({ connectionString: database.url, max: 2 })
  await migrate(pool)
})
afterAll(() => pool.end())

test('I13 a library that renames columns is refused, and no new message counts as a duplicate', async () => {
  const inbox = createInbox({ database: postgres(), consumer: 'renamed' })
  const client = await pool.connect()
  await client.query('begin')
  const camel = (name: string): string => name.replaceAll(/_./g, ([, letter]) => letter!.toUpperCase())
  const tx = sqlTransaction({
    name: 'renaming',
    async query(text, values) {
      const { rows, rowCount } = await client.query<Record<string, unknown>>(text, [...values])
      const renamed = rows.map((row) =>
        Object.fromEntries(Object.entries(row).map(([name, value]) => [camel(name), value])),
      )
      return { rows: renamed, rowCount: rowCount ?? 0 }
    },
  })
  await expect(inbox.processBatch(tx, [{ id: 'a' }, { id: 'b' }], () => undefined)).rejects.toThrow(
    UnsupportedTransactionError,
  )
  await client.query('rollback')
  client.release()
  expect((await pool.query('select 1 from txbox.inbox')).rowCount).toBe(0)
})
