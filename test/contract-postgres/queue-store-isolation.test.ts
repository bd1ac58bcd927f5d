import { Kysely, PostgresDialect } from 'kysely'
import { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { postgres } from '@txbox/postgres'
import { QUEUE, QueueStoreUnderTest } from '../support/subjects/queue-store-under-test.ts'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'

const target = useTarget()

describe.each(['pg', 'kysely'])('%s', (library) => {
  let pool: Pool
  beforeAll(async () => {
    const options = '-c default_transaction_isolation=serializable -c default_transaction_deferrable=on'
    pool = new Pool({ connectionString: await databaseUrl(target), options })
  })
  afterAll(() => pool.end())

  test('Q13 a receiver whose role is serializable by default takes no part in the conflicts of other transactions, and leaves no lock', async () => {
    const db = library === 'pg' ? pool : new Kysely({ dialect: new PostgresDialect({ pool }) })
    const queue = new QueueStoreUnderTest({ database: postgres({ db } as never) as never })
    await queue.send('a', 'b', 'c', 'd', undefined)
    // An open serializable transaction keeps the locks of other serializable transactions that have ended.
    const other = await pool.connect()
    await other.query('begin')
    await other.query('select 1')
    const attempt = { id: library, retentionMs: 60_000 }
    const [one, two, ...others] = await queue.receive({ attempt })
    expect(others).toHaveLength(3)
    await queue.receive({ attempt })
    await queue.store.extend(others, 60_000)
    await queue.store.giveBack(one!, { delayMs: 0, error: 'no', counted: true })
    await queue.store.bury(QUEUE, two!, 'never')
    await queue.store.settle(undefined, others)
    expect(await queue.receive({ remove: true })).toHaveLength(1)
    await queue.store.purge(QUEUE, 100)
    // The check of the revision is one of the sender's. Its lock stays as long as other databases have such transactions.
    const locks = await target.sql(
      `select relation::regclass::text as relation, locktype from pg_locks
       where mode = 'SIReadLock' and relation <> 'txbox.migrations'::regclass and database = (select oid from pg_database where datname = current_database())`,
    )
    await other.query('rollback')
    other.release()
    expect(locks).toEqual([])
    await target.sql('delete from txbox.queue')
  })
})
