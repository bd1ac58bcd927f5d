import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { localParkedStatements } from '../../packages/postgres/src/local/local-parked-statements.ts'
import { localStatements } from '../../packages/postgres/src/local/local-statements.ts'
import { outboxStatements } from '../../packages/postgres/src/outbox/outbox-statements.ts'
import { blocksRead, planOfRolledBack, rowsExamined } from '../support/engines/postgres-plans.ts'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'

/** A million rows, if the environment asks for as many. */
const ROWS = Number(process.env['TXBOX_TEST_ROWS'] ?? (inject('tier') === 'all' ? 200_000 : 25_000))
const local = localStatements('txbox')
const parked = localParkedStatements('txbox')
const outbox = outboxStatements('txbox')
const FENCE = ['local/billing/03', 'me', '7'] as const
const AT = ['billing', 3] as const

/** A new table has no statistics, or those of its first rows: consumers must not depend on their next update. */
const STATISTICS = ['never analysed', 'analysed at five rows', 'analysed'] as const
type Statistics = (typeof STATISTICS)[number]

interface Costs {
  /** The number of rows of the two tables that the statement examined. */
  readonly rows: number
  /** The number of blocks that the statement read. */
  readonly blocks: number
  readonly nodes: readonly string[]
}

describe(`tables of ${ROWS} local messages`, () => {
  const target = useTarget()
  let client: Client

  beforeAll(async () => {
    client = new Client(await databaseUrl(target))
    client.on('error', () => undefined)
    await client.connect()
    for (const table of ['local_outbox', 'local_parked'])
      await client.query(`alter table txbox.${table} set (autovacuum_enabled = false)`)
    await client.query(
      `insert into txbox.leases (name, owner, term, expires_at) values ($1, $2, $3, clock_timestamp() + interval '1 h')`,
      [...FENCE],
    )
  })
  afterAll(() => client.end())

  /** Plans the statement, executes it, and rolls it back. */
  async function costsOf(text: string, values: readonly unknown[]): Promise<Costs> {
    const plan = await planOfRolledBack(client, text, values)
    return {
      rows: rowsExamined(plan, 'local_outbox', 'local_parked'),
      blocks: blocksRead(plan),
      nodes: plan.map((node) => node['Node Type']),
    }
  }

  /** Rows are numbered from 1 by `n`. */
  async function fill(table: string, columns: string, row: string, statistics: Statistics): Promise<void> {
    const insert = (from: number, to: number): Promise<unknown> =>
      client.query(
        `insert into txbox.${table} (${columns}, type, content_type, headers, payload)
         select ${row}, 'made', 'text/plain', '{}', '' from generate_series(${from}, ${to}) as n`,
      )
    // A new table: truncating one leaves its statistics.
    await client.query(`create table txbox.fresh (like txbox.${table} including all)`)
    await client.query(`drop table txbox.${table}`)
    await client.query(`alter table txbox.fresh rename to ${table}`)
    if (table === 'local_outbox')
      await client.query('alter sequence txbox.fresh_seq_seq rename to local_outbox_seq')
    await client.query(`alter table txbox.${table} set (autovacuum_enabled = false)`)
    await insert(1, 5)
    if (statistics === 'analysed at five rows') await client.query(`analyze txbox.${table}`)
    await insert(6, ROWS)
    if (statistics === 'analysed') await client.query(`analyze txbox.${table}`)
  }

  async function rowsOf(
    table: string,
    number: string,
    where: string,
    count: number,
  ): Promise<readonly [numbers: string[], stamps: string[]]> {
    const { rows } = await client.query<{ n: string; stamp: string }>(
      `select t.${number}::text as n, t.created_at::text as stamp
       from txbox.${table} as t where ${where} order by t.${number} limit $1`,
      [count],
    )
    return [rows.map(({ n }) => n), rows.map(({ stamp }) => stamp)]
  }

  async function server(): Promise<string> {
    const { rows } = await client.query<{ server: string }>(local.server)
    return rows[0]!.server
  }

  const verdictsOn = (rows: readonly [string[], string[]], dueMs: number | null): readonly unknown[] => {
    const column = <T>(value: T): T[] => rows[0].map(() => value)
    return [...rows, column(0), column(dueMs), ...[false, null, null, false, false].map(column)]
  }

  // One shard of one consumer has half of the messages, and one of its keys has a quarter of them; other shards share the rest.
  describe.each(STATISTICS)('waiting, %s', (statistics) => {
    beforeAll(async () => {
      const row = `case when n % 2 = 0 then 'billing' else 'consumer-' || n % 20 end, case when n % 2 = 0 then 3 else n / 2 % 15 end,
        'message-' || n, case when n % 4 = 0 then 'hot' else 'key-' || n % 1000 end`
      await fill('local_outbox', 'consumer, shard, id, key', row, statistics)
    }, 300_000)

    const read = async (
      [consumer, shard]: readonly [string, number],
      limit: number,
      without: readonly string[] = [],
    ): Promise<Costs> => costsOf(local.read, [shard, limit, 16_384, 0, await server(), 0, consumer, without])

    test('O12 a read of a shard follows the primary key and stops early, without a sort or a scan', async () => {
      for (const at of [AT, ['consumer-5', 4], ['consumer-5', 15], ['nobody', 3], ['billing', 2]] as const) {
        for (const limit of [10, 500]) {
          const { rows, blocks, nodes } = await read(at, limit)
          expect(nodes).not.toContain('Sort')
          expect(rows).toBeLessThanOrEqual(limit)
          // An empty shard costs nothing, whatever comes behind it.
          if (at[0] === 'nobody' || at[1] === 15 || at[1] === 2) expect(blocks).toBeLessThan(30)
        }
      }
    })

    test('O12 a read that leaves out a key stops early as well', async () => {
      const { rows, nodes } = await read(AT, 100, ['hot', 'key-2'])
      expect(nodes).not.toContain('Sort')
      expect(rows).toBeLessThanOrEqual(300)
    })

    test('O12 the query for work costs one look-up for each shard', async () => {
      const consumers = Array.from({ length: 20 }, (_, n) => (n === 0 ? 'billing' : `consumer-${n}`))
      const shards = consumers.flatMap((consumer) =>
        Array.from({ length: 16 }, (_, shard) => [consumer, shard] as const),
      )
      const values = [
        shards.map(([consumer]) => consumer),
        shards.map(([, shard]) => shard),
        shards.map(() => 0),
        await server(),
        0,
      ]
      const { rows, blocks } = await costsOf(local.work, values)
      expect(rows).toBeLessThanOrEqual(320)
      expect(blocks).toBeLessThan(320 * 8)
    })

    test('O12 locking, removing and settling find each message by the primary key', async () => {
      for (const count of [1, 100, 1000]) {
        const rows = await rowsOf('local_outbox', 'seq', "consumer = 'billing' and shard = 3", count)
        for (const text of [local.lock, local.lockUnseen, local.settle]) {
          const costs = await costsOf(text, [...FENCE, ...AT, ...rows])
          expect(costs.rows).toBeLessThanOrEqual(2 * count)
          expect(costs.blocks).toBeLessThan(100 + 20 * count)
        }
        const costs = await costsOf(local.remove, [...AT, ...rows])
        expect(costs.rows).toBeLessThanOrEqual(2 * count)
        const parking = await costsOf(local.park, [...FENCE, ...AT, ...verdictsOn(rows, 100)])
        expect(parking.rows).toBeLessThanOrEqual(4 * count)
        const remaining = await costsOf(local.remaining, [...AT, ...rows])
        expect(remaining.rows).toBeLessThanOrEqual(count)
      }
    })

    test('O12 settling several shards together finds each message by the primary key, and reads none without the lease', async () => {
      const shards = Array.from({ length: 8 }, (_, shard) => shard)
      for (const count of [1, 100]) {
        const all = await Promise.all(
          shards.map((shard) =>
            rowsOf('local_outbox', 'seq', `consumer = 'consumer-5' and shard = ${shard}`, count),
          ),
        )
        const names = shards.map((shard) => `local/consumer-5/0${shard}`)
        const numbers = all.flatMap(([seqs]) => seqs)
        const places = all.flatMap(([seqs], shard) => seqs.map(() => shard))
        const stamps = all.flatMap(([, of]) => of)
        const values = [names, names.map(() => 'me'), names.map(() => 7)]
        const rows = ['consumer-5', shards, places, numbers, stamps]
        expect((await costsOf(local.settleTogether, [...values, ...rows])).rows).toBe(0)
        await client.query(
          `insert into txbox.leases (name, owner, term, expires_at)
           select name, 'me', 7, clock_timestamp() + interval '1 h' from unnest($1::text[]) as name`,
          [names],
        )
        const costs = await costsOf(local.settleTogether, [...values, ...rows])
        await client.query('delete from txbox.leases where name = any ($1)', [names])
        expect(costs.rows).toBeGreaterThan(0)
        expect(costs.rows).toBeLessThanOrEqual(2 * numbers.length)
        expect(costs.blocks).toBeLessThan(200 + 20 * numbers.length)
      }
    })

    test('O12 one message is locked and removed by the primary key', async () => {
      const [[number], [stamp]] = await rowsOf('local_outbox', 'seq', "consumer = 'billing' and shard = 3", 1)
      for (const text of [local.lockOne, local.lockOneUnseen]) {
        expect((await costsOf(text, [...FENCE, ...AT, number, stamp])).rows).toBe(1)
        // The lease is read first: without the lease, no row is read, and so none is locked.
        expect((await costsOf(text, [...FENCE.slice(0, 2), '8', ...AT, number, stamp])).rows).toBe(0)
      }
      expect((await costsOf(local.removeOne, [...AT, number, stamp])).rows).toBe(1)
    })

    test('O12 publishing scans no table', async () => {
      const values = [3, 'id', null, 'k', 'made', 'text/plain', '{}', null, null, '']
      expect(
        (await costsOf(outbox.appendSubscribed, [...values, ['billing', 'mailer'], true, true])).rows,
      ).toBe(0)
      const many = values.map((value) => Array.from({ length: 100 }, () => value))
      const consumers = [many[0]!.map((_, n) => n + 1), many[0]!.map(() => 'billing')]
      const times = many[0]!.map(() => null)
      expect(
        (await costsOf(outbox.appendSubscribedBatch, [...many, ...consumers, true, true, times])).rows,
      ).toBe(0)
    })
  })

  // One key has almost all parked messages; two other keys of its shard have a few.
  describe.each(STATISTICS)('parked, %s', (statistics) => {
    let rows: readonly [string[], string[]]

    beforeAll(async () => {
      const row = `'billing', 3, case when n = 1 or n = 7 then clock_timestamp() end,
        case when n in (7, 8) then 'key-1' when n in (9, 10) then 'key-2' else 'key-0' end, 'message-' || n, 'k'`
      await fill('local_parked', 'consumer, shard, due_at, order_key, id, key', row, statistics)
      await fill(
        'local_outbox',
        'consumer, shard, id, key',
        "'billing', 3, 'message-' || n, 'key-' || n % 5",
        statistics,
      )
      rows = await rowsOf('local_parked', 'place', "order_key = 'key-0'", 1000)
    }, 300_000)

    const part = (from: number, to: number): readonly [string[], string[]] => [
      rows[0].slice(from, to),
      rows[1].slice(from, to),
    ]

    test('O4 a read looks up once per message whether its key is blocked', async () => {
      const values = [3, 500, 16_384, 0, await server(), 0, 'billing', []]
      expect((await costsOf(local.read, values)).rows).toBeLessThanOrEqual(1001)
    })

    test('O4 due messages are found without the messages that wait behind them', async () => {
      expect((await costsOf(parked.due, [3, 1000, 'billing'])).rows).toBeLessThanOrEqual(20)
      const work = await costsOf(local.work, [['billing', 'mailer'], [3, 3], [0, 0], await server(), 0])
      expect(work.rows).toBeLessThanOrEqual(20)
    })

    test('O4 a key continues from a place', async () => {
      const [places, stamps] = part(500, 501)
      const values = [3, ['key-0'], places, 1000, 16_384, stamps, 'billing']
      expect((await costsOf(parked.readOnward, values)).rows).toBeLessThanOrEqual(2001)
      expect((await costsOf(parked.readAlone, [places, stamps, 16_384])).rows).toBeLessThanOrEqual(1)
    })

    test('O4 parked messages are locked, removed and settled by their places', async () => {
      for (const count of [1, 100, 900]) {
        for (const text of [parked.lock, parked.lockUnseen, parked.settle, parked.suspect, parked.follow]) {
          const costs = await costsOf(text, [...FENCE, ...AT, ...part(0, count)])
          expect(costs.rows).toBeLessThanOrEqual(2 * count)
        }
        expect(
          (await costsOf(parked.keep, [...FENCE, ...AT, ...verdictsOn(part(0, count), 100)])).rows,
        ).toBeLessThanOrEqual(2 * count)
        expect((await costsOf(parked.remove, [...AT, ...part(0, count)])).rows).toBeLessThanOrEqual(2 * count)
      }
    })

    test('O4 keys are released and healed by one look-up for each', async () => {
      await client.query(
        "update txbox.local_parked set due_at = null where order_key = 'key-0' and due_at is not null",
      )
      expect(
        (await costsOf(parked.release, [...FENCE, ...AT, ['key-0', 'key-1', 'nothing']])).rows,
      ).toBeLessThanOrEqual(20)
      expect((await costsOf(parked.heal, [...FENCE, ...AT, '', 10_000])).rows).toBeLessThanOrEqual(20)
    })

    test('O9 suspects are found without reading other messages', async () => {
      await client.query("update txbox.local_parked set suspect = true where id = 'message-7'")
      expect((await costsOf(parked.readSuspect, [3, 16_384, 'billing'])).rows).toBeLessThanOrEqual(2)
    })

    test('L6 messages without a handler are found by their index', async () => {
      await client.query(
        "update txbox.local_parked set unhandled = true, due_at = clock_timestamp() + interval '1 h' where id = 'message-7'",
      )
      expect((await costsOf(parked.handled, ['billing', ['made', 'paid']])).rows).toBeLessThanOrEqual(4)
    })

    test('L4 a key is probed by its first messages', async () => {
      const { rows: touched } = await costsOf(local.isUnlocked, ['billing', 3, 'key-0'])
      expect(touched).toBeLessThanOrEqual(5 * 1000 + 3 * 1000 + 10)
    })
  })
})
