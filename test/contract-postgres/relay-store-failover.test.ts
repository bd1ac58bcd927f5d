import { Pool } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { migrate, postgres } from '@txbox/postgres'
import { PostgresPair } from '../support/engines/servers/postgres-pair.ts'
import { SHARD, StoreUnderTest, idsOf, refusal } from '../support/subjects/store-under-test.ts'
import { useTarget } from '../support/engines/target.ts'

const target = useTarget({ migrated: false })
let pair: PostgresPair
let pool: Pool

beforeAll(async () => {
  pair = await PostgresPair.start()
  pool = new Pool({ connectionString: pair.url, max: 4 })
  pool.on('error', () => undefined)
  await migrate(pool)
})
afterAll(async () => {
  await pool.end()
  await pair.close()
})

async function sql(
  text: string,
  values: readonly unknown[] = [],
): Promise<readonly Record<string, unknown>[]> {
  let n = 0
  return (
    await pool.query<Record<string, unknown>>(
      text.replaceAll('?', () => `$${++n}`),
      [...values],
    )
  ).rows
}

test('O14 after a failover to a standby that was behind, nothing is settled by a number from before the failover', async () => {
  const relay = new StoreUnderTest({ database: postgres({ db: pool }) as never }, target, { sql } as never)
  await relay.takeLease()
  // A read that begins where the last read ended would find no message for long.
  for (let round = 0; round < 30; round++) {
    await relay.publish(...Array.from({ length: 100 }, () => undefined))
    await relay.settle({ accepted: await relay.read() })
  }
  await relay.publish('parked', 'parked')
  await relay.park(await relay.read(), { attempts: 0 })
  await pair.fallBehind()

  // So many that the numbers which the standby had reserved are used up.
  const lost = await relay.publish(...Array.from({ length: 100 }, () => 'k'))
  const inFlight = await relay.read()
  expect(idsOf(inFlight)).toEqual(lost)
  const [head] = await relay.readDue()
  const { generation } = relay.store
  await pair.failOver()

  const now = await relay.publish(...Array.from({ length: 100 }, () => 'k'))
  const rows = await sql('select seq::text as seq from txbox.outbox')
  const again = rows.filter(({ seq }) => inFlight.some((row) => String(row.seq) === seq))
  expect(again.length).toBeGreaterThan(50)
  // The lease is valid on that server, and the settlement from before the failover is not refused.
  await relay.settle({
    accepted: inFlight.slice(0, 50),
    refused: inFlight.slice(50).map((row) => refusal(row)),
  })
  expect(await relay.store.work([SHARD])).toEqual([{ shard: SHARD, due: true }])
  expect(idsOf(await relay.read())).toEqual(now)
  expect(relay.store.generation).toBeGreaterThan(generation)
  // Messages that the standby had keep their numbers and stamps.
  await relay.store.settleParked(relay.lease, SHARD, {
    accepted: [head!],
    refused: [],
    released: [{ key: 'parked', after: head!.seq }],
  })
  expect((await relay.readDue()).map(({ key }) => key)).toEqual(['parked'])
})
