import { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Kysely, PostgresDialect } from 'kysely'
import { postgres } from '@txbox/postgres'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { SHARD, StoreUnderTest, refusal } from '../support/subjects/store-under-test.ts'
import { useTarget } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

describe.each(['pg', 'kysely'])('%s', (library) => {
  let pool: Pool
  beforeAll(async () => {
    const options = '-c default_transaction_isolation=serializable -c default_transaction_deferrable=on'
    pool = new Pool({ connectionString: await databaseUrl(target), options })
  })
  afterAll(() => pool.end())

  test('O12 a relay whose role is serializable by default takes no part in the conflicts of producers', async () => {
    const db = library === 'pg' ? pool : new Kysely({ dialect: new PostgresDialect({ pool }) })
    const relay = new StoreUnderTest({ database: postgres({ db } as never) as never }, target, outbox)
    // An open serializable transaction keeps the locks of other serializable transactions that have ended.
    const producer = await pool.connect()
    await producer.query('begin')
    await producer.query('select 1')
    await relay.publish('k', 'k', 'l')
    const lease = await relay.takeLease()
    const read = await relay.read()
    await relay.store.work([SHARD])
    await relay.settle({
      accepted: read.slice(2),
      refused: [refusal(read[0]!)],
      behind: [{ row: read[1]!, suspect: false }],
    })
    const [head] = await relay.readDue()
    await relay.store.settleParked(lease, SHARD, {
      accepted: [head!],
      refused: [],
      released: [{ key: 'k', after: 0n }],
    })
    await relay.store.healKeys(lease, SHARD)
    await relay.store.note(lease, 'x')
    await relay.leases.renew([lease], 1000)
    const locks = await outbox.sql(
      `select relation::regclass::text as relation from pg_locks where mode = 'SIReadLock' and database =
         (select oid from pg_database where datname = current_database())`,
    )
    await producer.query('rollback')
    producer.release()
    expect(locks).toEqual([])
  })
})
