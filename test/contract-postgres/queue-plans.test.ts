import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { deadLetterStatements } from '../../packages/postgres/src/operate/dead-letter-statements.ts'
import { inspectionStatements } from '../../packages/postgres/src/operate/inspection-statements.ts'
import { queueReceiveStatements } from '../../packages/postgres/src/queue/queue-receive-statements.ts'
import { queueStatements } from '../../packages/postgres/src/queue/queue-statements.ts'
import { blocksRead, planOfRolledBack, rowsExamined } from '../support/engines/postgres-plans.ts'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'

/** A million rows, if the environment asks for as many. */
const ROWS = Number(process.env['TXBOX_TEST_ROWS'] ?? (inject('tier') === 'all' ? 200_000 : 25_000))
const KEYS = 1000
const receive = queueReceiveStatements('txbox')
const queue = queueStatements('txbox')
const inspection = inspectionStatements('txbox')
const letters = deadLetterStatements('txbox', 'queue')
const ALL_SHARDS = Array.from({ length: 16 }, (_, shard) => shard)
const LOCKS = ALL_SHARDS.map((shard) => `queue/orders/${String(shard).padStart(2, '0')}`)

/** A new table has no statistics, or those of its first rows: receivers must not depend on their next update. */
const STATISTICS = ['never analysed', 'analysed at five rows', 'analysed'] as const

describe.each(STATISTICS)('a queue with many messages behind a thousand blocked keys, %s', (statistics) => {
  const target = useTarget()
  let client: Client

  beforeAll(async () => {
    client = new Client(await databaseUrl(target))
    client.on('error', () => undefined)
    await client.connect()
    await client.query('alter table txbox.queue set (autovacuum_enabled = false)')
    // The first of each key is in flight, for an hour; the others of the key wait. One shard has all of them.
    const insert = (from: number, to: number): Promise<unknown> =>
      client.query(
        `insert into txbox.queue (shard, id, topic, key, order_key, due_at, receipt, content_type, headers, payload)
         select 3, 'message-' || n, 'orders', 'key-' || n % ${KEYS}, 'key-' || n % ${KEYS},
           case when n <= ${KEYS} then clock_timestamp() + interval '1 hour' end,
           case when n <= ${KEYS} then 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid end, 'text/plain', '{}', 'payload'
         from generate_series(${from}, ${to}) as n`,
      )
    await insert(1, 5)
    if (statistics === 'analysed at five rows') await client.query('analyze txbox.queue')
    await insert(6, ROWS)
    // Forty new messages of blocked keys, ten of other keys, ten handled ones, and dead letters.
    await client.query(
      `insert into txbox.queue (shard, id, topic, key, order_key, due_at, dead_at, content_type, headers, payload)
       select 3, 'new-' || n, 'orders', 'key-' || n, case when n <= 60 then case when n <= 40 then 'key-' || n else 'other-' || n end end,
         case when n <= 50 then clock_timestamp() when n <= 60 then 'epoch' end, case when n > 60 then clock_timestamp() end,
         'text/plain', '{}', 'payload'
       from generate_series(1, 90) as n`,
    )
    // Messages for tomorrow, in every shard.
    await client.query(
      `insert into txbox.queue (shard, id, topic, due_at, deliver_at, content_type, headers, payload)
       select n % 16, 'scheduled-' || n, 'orders', clock_timestamp() + interval '1 day', now(), 'text/plain', '{}', 'payload'
       from generate_series(1, ${ROWS}) as n`,
    )
    await client.query(`insert into txbox.leases (name) select unnest($1::text[])`, [LOCKS])
    if (statistics === 'analysed') await client.query('analyze txbox.queue')
  }, 300_000)
  afterAll(() => client.end())

  /** Runs the statement, and rolls it back. @returns the number of blocks that the statement read */
  async function blocks(text: string, values: readonly unknown[]): Promise<number> {
    return blocksRead(await planOfRolledBack(client, text, values))
  }

  /** Runs the statement, and rolls it back. @returns the number of rows of the table that the statement examined */
  async function examined(text: string, values: readonly unknown[]): Promise<number> {
    return rowsExamined(await planOfRolledBack(client, text, values), 'queue')
  }

  async function placesOf(where: string): Promise<readonly [places: string[], receipts: string[]]> {
    const { rows } = await client.query<{ place: string; receipt: string }>(
      `select place::text as place, coalesce(receipt, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')::text as receipt
       from txbox.queue where ${where} order by place limit 10`,
    )
    return [rows.map(({ place }) => place), rows.map(({ receipt }) => receipt)]
  }

  test('Q13 a receive examines the visible messages, and not the waiting ones', async () => {
    expect(await examined(receive.lockReady, ['orders', ALL_SHARDS, LOCKS, 4, true])).toBeLessThanOrEqual(16)
    expect(await examined(receive.lockReady, ['nothing', ALL_SHARDS, LOCKS, 4, true])).toBeLessThanOrEqual(16)
    // The row, the first of its key, and the one in flight.
    for (const limit of [10, 50]) {
      expect(await examined(receive.candidates, ['orders', [3, 4], limit])).toBeLessThanOrEqual(3 * limit)
    }
    expect(await examined(receive.candidates, ['orders', [4, 5], 10])).toBe(0)
    // The row twice, as it is deleted by its address; the first of its key, and the one in flight.
    expect(await examined(receive.sweep, ['orders', [3, 4], 1000])).toBeLessThanOrEqual(40)
    expect(await examined(receive.sweep, ['orders', [4, 5], 1000])).toBe(0)
  })

  // An index entry that is passed over counts as no row.
  test('Q13 a receive does not pass over the messages that are not due yet', async () => {
    expect(await blocks(receive.lockReady, ['orders', ALL_SHARDS, LOCKS, 4, true])).toBeLessThan(16 * 12)
    expect(await blocks(receive.candidates, ['orders', [4], 10])).toBeLessThan(30)
    expect(await blocks(receive.sweep, ['orders', [4], 1000])).toBeLessThan(30)
    expect(await blocks(receive.candidates, ['orders', [3], 1000])).toBeLessThan(60 * 30)
  })

  test('Q13 moving messages examines the messages themselves, and one or two others of their keys', async () => {
    const [places] = await placesOf('due_at > now()')
    const keys = Array.from({ length: 10 }, (_, n) => `key-${n}`)
    expect(await examined(receive.release, ['orders', keys.map(() => 3), keys])).toBeLessThanOrEqual(30)
    expect(await examined(receive.putBack, [places])).toBe(10)
    expect(await examined(receive.bury, [places, 'error'])).toBe(10)
    expect(await examined(receive.lockExpired, [places])).toBe(10)
    expect(await examined(receive.takeAway, [places])).toBe(10)
    const waiting = await placesOf(`due_at <= now() and order_key like 'other-%' and due_at > 'epoch'`)
    const receipt = '00000000-0000-4000-8000-000000000000'
    expect(await examined(receive.take, [waiting[0], receipt, 1000])).toBe(waiting[0].length)
  })

  test('Q13 settling and extending follow the primary key', async () => {
    const [places, receipts] = await placesOf('due_at > now()')
    for (const text of [queue.settle, queue.settleUnordered]) {
      expect(await examined(text, ['orders', places[0], receipts[0]])).toBe(1)
    }
    for (const text of [queue.settleBatch, queue.settleUnorderedBatch]) {
      expect(await examined(text, ['orders', places, receipts])).toBe(10)
    }
    // Found, locked and changed.
    expect(await examined(queue.extend, ['orders', places, receipts, 1000])).toBe(30)
    expect(await examined(queue.giveBack, ['orders', places[0], receipts[0], 1000, null, 0])).toBe(1)
    expect(await examined(queue.bury, ['orders', places[0], receipts[0], 'error'])).toBe(2)
    expect(await examined(queue.recall, [places])).toBe(10)
    expect(await examined(queue.extendRecalled, [places, 1000])).toBe(10)
  })

  test('Q20 a search for stuck keys examines one message of each key, and a few messages of a key that looks stuck', async () => {
    const keys = KEYS + 21
    expect(await examined(inspection.firstOfKeys, [20_000, 100])).toBeLessThanOrEqual(keys)
    expect(await blocks(inspection.firstOfKeys, [20_000, 100])).toBeLessThan(keys * 12)
    expect(await examined(inspection.firstOfKeys, [50, 100])).toBeLessThanOrEqual(50)
    expect(await examined(inspection.keyEnds, ['orders', 3, 'key-7'])).toBeLessThanOrEqual(3 * 1000)
  })

  test('Q12 dead letters of a queue are found by their index', async () => {
    const any = [null, 'orders', null, null, null, null]
    expect(await examined(letters.list, [...any, 20, null])).toBeLessThanOrEqual(30)
    expect(await examined(letters.redrive, [...any, 20, null, 'me'])).toBeLessThanOrEqual(60)
  })
})
