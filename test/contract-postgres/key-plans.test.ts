import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { parkedStatements } from '../../packages/postgres/src/relay/parked-statements.ts'
import {
  UNKEYED_SHARD,
  queueReceiveStatements,
} from '../../packages/postgres/src/queue/queue-receive-statements.ts'
import { relayStatements } from '../../packages/postgres/src/relay/relay-statements.ts'
import { blocksRead, planOfRolledBack } from '../support/engines/postgres-plans.ts'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'

const KEYS = inject('tier') === 'all' ? 50_000 : 15_000
const relay = relayStatements('txbox')
const parked = parkedStatements('txbox')
const receive = queueReceiveStatements('txbox')

/** A new table has no statistics, or those of its first rows: the plans must not depend on their next update. */
const STATISTICS = ['never analysed', 'analysed at five rows', 'analysed'] as const

/**
 * Entries of an index that a scan passes over do not count as rows, so these tests count blocks. A look-up of a key reads
 * some five blocks; one that goes on behind the key would read hundreds.
 */
const BLOCKS_OF_A_LOOK_UP = 8

describe.each(STATISTICS)('a shard with fifty thousand keys, %s', (statistics) => {
  const target = useTarget()
  let client: Client

  beforeAll(async () => {
    client = new Client(await databaseUrl(target))
    client.on('error', () => undefined)
    await client.connect()
    await fill('parked', "'t', 'key-' || to_char(n, 'FM000000'), 'key-' || to_char(n, 'FM000000'), null")
    // Every hundredth message of the queue is handled, and the last message of its key.
    await fill(
      'queue',
      `'orders', 'key-' || to_char(n, 'FM000000'), 'key-' || to_char(n, 'FM000000'),
       case when n % 100 = 0 then timestamptz 'epoch' else clock_timestamp() - interval '1 h' end`,
    )
    await client.query(
      `insert into txbox.queue (shard, id, topic, due_at, content_type, headers, payload)
       select ${UNKEYED_SHARD}, 'unkeyed-' || n, 'orders', clock_timestamp() - interval '1 h', 'text/plain', '{}', ''
       from generate_series(1, 20000) as n`,
    )
    if (statistics === 'analysed') await client.query('analyze txbox.queue')
    // The keys of these messages have no parked message, and lie between the keys that have one.
    await client.query(
      `insert into txbox.outbox (shard, id, topic, key, content_type, headers, payload)
       select 3, 'message-' || n, 't', 'key-' || to_char(n, 'FM000000') || '-other', 'text/plain', '{}', ''
       from generate_series(1, 100) as n`,
    )
    await client.query(
      `insert into txbox.leases (name, owner, term, expires_at)
       values ('outbox/03', 'me', 7, clock_timestamp() + interval '1 h') on conflict do nothing`,
    )
  })
  afterAll(() => client.end())

  /** Fills a table with one row for each key. */
  async function fill(table: 'parked' | 'queue', values: string): Promise<void> {
    await client.query(`alter table txbox.${table} set (autovacuum_enabled = false)`)
    const insert = (from: number, to: number): Promise<unknown> =>
      client.query(
        `insert into txbox.${table} (shard, id, topic, key, order_key, due_at, content_type, headers, payload)
         select 3, 'message-' || n, ${values}, 'text/plain', '{}', '' from generate_series(${from}, ${to}) as n`,
      )
    await insert(1, 5)
    if (statistics === 'analysed at five rows') await client.query(`analyze txbox.${table}`)
    await insert(6, KEYS)
    if (statistics === 'analysed') await client.query(`analyze txbox.${table}`)
  }

  /** Runs the statement, and rolls it back. @returns the number of blocks that the statement has read */
  async function blocks(text: string, values: readonly unknown[]): Promise<number> {
    return blocksRead(await planOfRolledBack(client, text, values))
  }

  test('O4 a read does not pass over the parked messages of other keys', async () => {
    const { rows } = await client.query<{ server: string }>(relay.server)
    const read = await blocks(relay.read, [3, 100, 16_384, 0, rows[0]!.server, 0])
    // The first look-up asks whether the shard has any parked message; the second looks for the key.
    expect(read).toBeLessThan(100 * 2 * BLOCKS_OF_A_LOOK_UP)
  })

  test('O4 a key whose last parked message is settled does not pass over those of other keys', async () => {
    const { rows } = await client.query<{ place: string; stamp: string }>(
      `select p.place::text as place, p.created_at::text as stamp from txbox.parked as p order by p.place limit 10`,
    )
    const keys = Array.from({ length: 10 }, (_, n) => `key-${String(n + 1).padStart(6, '0')}`)
    const accepted = [rows.map(({ place }) => place), rows.map(({ stamp }) => stamp)]
    const none = [[], [], [], [], [], [], [], []]
    const read = await blocks(parked.settle, ['outbox/03', 'me', '7', ...accepted, ...none, keys, 3])
    // Each row is found, deleted, and searched for a successor.
    expect(read).toBeLessThan(10 * 3 * BLOCKS_OF_A_LOOK_UP + BLOCKS_OF_A_LOOK_UP)
    const onward = [3, [keys[0]], [rows[0]!.place], 10, 16_384, [rows[0]!.stamp]]
    expect(await blocks(parked.readOnward, onward)).toBeLessThan(4 * BLOCKS_OF_A_LOOK_UP)
  })

  test('Q13 a key whose last message was handled does not pass over those of other keys', async () => {
    const ended = Array.from({ length: 50 }, (_, n) => `key-${String((n + 1) * 100).padStart(6, '0')}`)
    const released = await blocks(receive.release, ['orders', ended.map(() => 3), ended])
    expect(released).toBeLessThan(50 * 3 * BLOCKS_OF_A_LOOK_UP)
    // Each row is found, locked, and deleted, and its key is searched for a message, and for a message in flight.
    const swept = await blocks(receive.sweep, ['orders', [3], 50])
    expect(swept).toBeLessThan(50 * 5 * BLOCKS_OF_A_LOOK_UP)
    const found = await blocks(receive.candidates, ['orders', [3], 50])
    expect(found).toBeLessThan(50 * 3 * BLOCKS_OF_A_LOOK_UP)
  })

  test('Q13 the look for messages without a key reads those that it takes, and one entry of each other shard', async () => {
    const shards = Array.from({ length: 16 }, (_, shard) => shard)
    const receipt = '01993b1e-7c3a-7000-8000-000000000000'
    const none = await blocks(receive.takeUnkeyed, ['other', shards, 10, 10, receipt, 30_000, 1_000_000])
    expect(none).toBeLessThan(17 * BLOCKS_OF_A_LOOK_UP)
    // Each row is found, locked and updated, with its entries in the indexes.
    const ten = await blocks(receive.takeUnkeyed, ['orders', shards, 10, 10, receipt, 30_000, 1_000_000])
    expect(ten).toBeLessThan((17 + 10 * 4) * BLOCKS_OF_A_LOOK_UP)
  })

  // The last test: its update leaves dead entries in the indexes.
  test('Q13 a key without a message in flight does not pass over those of other keys', async () => {
    await client.query('begin')
    await client.query(
      `update txbox.queue set receipt = gen_random_uuid(), due_at = clock_timestamp() + interval '1 h'
       where place in (select place from txbox.queue where due_at > 'epoch' order by place desc limit 20000)`,
    )
    await client.query('commit')
    const found = await blocks(receive.candidates, ['orders', [3], 50])
    expect(found).toBeLessThan(50 * 3 * BLOCKS_OF_A_LOOK_UP)
  })
})
