import { Client } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { garbageStatements } from '../../packages/postgres/src/operate/garbage-statements.ts'
import { blocksRead, planOf } from '../support/engines/postgres-plans.ts'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'

const ROWS = 100_000
const LIMIT = 100
const statements = garbageStatements('txbox')

const target = useTarget()
let client: Client

beforeAll(async () => {
  client = new Client(await databaseUrl(target))
  await client.connect()
  await client.query(`
    alter table txbox.inbox set (autovacuum_enabled = false);
    insert into txbox.inbox (consumer, key, processed_at, expires_at)
      select 'c', n::text, now(), now() + (n - ${ROWS / 2}) * interval '1 second' from generate_series(1, ${ROWS}) as n;
    insert into txbox.dedup_leases (consumer, key, token, expires_at)
      select 'c', n::text, gen_random_uuid(), now() + (n - ${ROWS / 2}) * interval '1 second' from generate_series(1, ${ROWS}) as n;
    alter table txbox.parked set (autovacuum_enabled = false);
    insert into txbox.parked (shard, id, topic, content_type, headers, payload, dead_at)
      select 0, n::text, 't', 'c', '{}', 'x', case when n % 2 = 0 then now() - n * interval '1 second' end
      from generate_series(1, ${ROWS}) as n;
    alter table txbox.queue set (autovacuum_enabled = false);
    insert into txbox.queue (shard, id, topic, order_key, content_type, headers, payload, due_at, dead_at)
      select n % 16, n::text, 'q' || n % 3, case when n % 2 = 1 then 'k' || n % 100 end, 'c', '{}', 'x',
        case when n % 2 = 1 then case when n % 4 = 1 then now() else 'epoch' end end, case when n % 2 = 0 then now() - n * interval '1 second' end
      from generate_series(1, ${ROWS}) as n;
    insert into txbox.waiting (consumer, key, from_version, to_version, kind, payload, dead_at)
      select 'c', n::text, 1, 2, 'number', 'x', case when n % 2 = 0 then now() - n * interval '1 second' end
      from generate_series(1, ${ROWS}) as n;
    analyze txbox.inbox, txbox.dedup_leases, txbox.parked, txbox.queue, txbox.waiting`)
})
afterAll(() => client.end())

test.for([
  ['expired claims', statements.removeExpiredClaims, [LIMIT, '0'], 'inbox_expires_at'],
  ['claims of dedup stores', statements.removeExpiredLeases, [LIMIT, '0'], 'dedup_leases_expires_at'],
  ['dead letters', statements.removeDeadLetters, [LIMIT, '0', 1000], 'parked_dead'],
  ['dead letters of queues', statements.removeQueueDeadLetters, [LIMIT, '0', 1000], 'queue_dead'],
  [
    'dead letters of version buffers',
    statements.removeBufferedDeadLetters,
    [LIMIT, '0', 1000],
    'waiting_dead_at',
  ],
] as const)(
  'G2 an index serves the search for %s, and rows are deleted by their addresses',
  async ([, text, values, index]) => {
    const plan = await planOf(client, text, values)
    const scans = plan.filter(
      (node) => node['Node Type'].includes('Scan') && !node['Node Type'].startsWith('CTE'),
    )
    expect(scans.map((node) => node['Index Name'] ?? node['Node Type']).toSorted()).toEqual(
      ['Tid Scan', index].toSorted(),
    )
    for (const scan of scans) expect(scan['Actual Rows']).toBeLessThanOrEqual(LIMIT)
  },
)

test('G2 with a pinned vacuum horizon a batch does not scan all rows that the run has removed', async () => {
  const reader = new Client(await databaseUrl(target))
  await reader.connect()
  await reader.query('begin isolation level repeatable read')
  await reader.query('select 1 from txbox.migrations')
  let from: string | undefined = '0'
  const blocks: number[] = []
  for (let batch = 0; batch < 40; batch += 1) {
    const values: unknown[] = [1000, from]
    blocks.push(blocksRead(await planOf(client, statements.removeExpiredClaims, values)))
    const { rows } = await client.query<{ next: string }>(
      `select (extract(epoch from min(expires_at)) * 1000000)::bigint::text as next from txbox.inbox`,
    )
    from = rows[0]!.next
  }
  await reader.query('rollback')
  await reader.end()
  // The first and the last batch cost about the same, although 39,000 dead entries are before the last one.
  expect(blocks.at(-1)! / blocks[0]!).toBeLessThan(2)
})

test.for([
  ['the next queue', statements.nextQueue, ['q1']],
  ['the next shard with handled messages', statements.handledShard, ['q1', [3, 4, 5, 6]]],
] as const)(
  '%s is found by a few look-ups in the index, however many messages there are',
  async ([, text, values]) => {
    const plan = await planOf(client, text, values)
    expect(plan[0]['Actual Rows']).toBe(1)
    expect(blocksRead(plan)).toBeLessThan(50)
    expect(plan.flatMap((node) => node['Index Name'] ?? [])).toEqual(['queue_due'])
  },
)
