import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { inboxStatements } from '../../packages/postgres/src/inbox/inbox-statements.ts'
import { parkedStatements } from '../../packages/postgres/src/relay/parked-statements.ts'
import { relayStatements } from '../../packages/postgres/src/relay/relay-statements.ts'
import { withLiterals } from '../../packages/sql/src/transactions/drivers/postgres-literals.ts'
import { planOfRolledBack, rowsExamined, type PlanNode } from '../support/engines/postgres-plans.ts'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'

const ROWS = inject('tier') === 'all' ? 200_000 : 100_000
const relay = relayStatements('txbox')
const shards = Array.from({ length: 16 }, (_, shard) => shard)
const parked = parkedStatements('txbox')
const inbox = inboxStatements('txbox')

type Statistics = 'never analysed' | 'analysed at five rows' | 'analysed'
/**
 * A new table has no statistics, or those of its first rows: the relay must not depend on their next update. The quick
 * tier leaves out tables without statistics.
 */
const STATISTICS: readonly Statistics[] = [
  ...(inject('tier') === 'all' ? (['never analysed'] as const) : []),
  ...(['analysed at five rows', 'analysed'] as const),
]

describe(`tables of ${ROWS} rows`, () => {
  const target = useTarget()
  let client: Client

  beforeAll(async () => {
    client = new Client(await databaseUrl(target))
    client.on('error', () => undefined)
    await client.connect()
  })
  afterAll(() => client.end())

  /** Plans the statement, executes it, and rolls it back. */
  function planOf(text: string, values: readonly unknown[]): Promise<readonly PlanNode[]> {
    return planOfRolledBack(client, text, values)
  }

  /** Rows are numbered from 1 by `n`. */
  async function fill(
    table: 'outbox' | 'inbox' | 'parked',
    columns: string,
    row: string,
    statistics: Statistics,
  ): Promise<void> {
    const insert = (from: number, to: number): Promise<unknown> =>
      client.query(
        `insert into txbox.${table} (${columns}) select ${row} from generate_series(${from}, ${to}) as n`,
      )
    // A new table: truncating one leaves its statistics.
    await client.query(`create table txbox.fresh (like txbox.${table} including all)`)
    await client.query(`drop table txbox.${table}`)
    await client.query(`alter table txbox.fresh rename to ${table}`)
    await client.query(`alter index txbox.fresh_pkey rename to ${table}_pkey`)
    if (table === 'outbox') await client.query('alter sequence txbox.fresh_seq_seq rename to outbox_seq')
    await client.query(`alter table txbox.${table} set (autovacuum_enabled = false)`)
    await insert(1, 5)
    if (statistics === 'analysed at five rows') await client.query(`analyze txbox.${table}`)
    await insert(6, ROWS)
    if (statistics === 'analysed') await client.query(`analyze txbox.${table}`)
  }

  /** Numbers, stamps and addresses. */
  async function rowsOf(
    table: 'outbox' | 'parked',
    number: string,
    where: string,
    count: number,
  ): Promise<readonly [numbers: string[], stamps: string[], addresses: string]> {
    const { rows } = await client.query<{ n: string; stamp: string; address: string }>(
      `select t.${number}::text as n, t.created_at::text as stamp, t.ctid::text as address
       from txbox.${table} as t where ${where} order by t.${number} limit $1`,
      [count],
    )
    const addresses = `{${rows.map(({ address }) => `"${address}"`).join(',')}}`
    return [rows.map(({ n }) => n), rows.map(({ stamp }) => stamp), addresses]
  }

  const numbersOf = (shard: number, count: number): ReturnType<typeof rowsOf> =>
    rowsOf('outbox', 'seq', `shard = ${shard}`, count)

  /** The identity of the server, as reads name it. */
  async function server(): Promise<string> {
    const { rows } = await client.query<{ server: string }>(relay.server)
    return rows[0]!.server
  }

  /** Checks that rows of the table are found only by the primary key. */
  function expectPrimaryKeyOnly(plan: readonly PlanNode[], table: 'outbox' | 'inbox'): void {
    for (const node of plan) {
      const reads = node['Node Type'].includes('Scan') && node['Relation Name'] === table
      // These two nodes follow the result of an index.
      const follows = ['Bitmap Heap Scan', 'Tid Scan'].includes(node['Node Type'])
      if (reads && !follows) expect(node['Index Name']).toBe(`${table}_pkey`)
    }
    const indexes = plan.flatMap((node) => node['Index Name'] ?? node['Conflict Arbiter Indexes'] ?? [])
    expect(indexes).toContain(`${table}_pkey`)
  }

  describe.each(STATISTICS)('outbox, %s', (statistics) => {
    // The tables are filled once, because every test rolls its changes back.
    beforeAll(async () => {
      // Each shard has a share of the messages, one shard has all the others, and one has none.
      const row =
        "case when n % 2 = 0 then 3 else n % 15 end, 'message-' || n, 't', 'key-' || n % 1000, 'text/plain', '{}', ''"
      await fill('outbox', 'shard, id, topic, key, content_type, headers, payload', row, statistics)
      await client.query(
        `insert into txbox.leases (name, owner, term, expires_at)
         values ('outbox/03', 'me', 7, clock_timestamp() + interval '1 h') on conflict do nothing`,
      )
    })

    test('O12 reading a shard follows the primary key and stops early, without a sort or a scan', async () => {
      for (const shard of [3, 4, 15]) {
        for (const limit of [10, 1000]) {
          const plan = await planOf(relay.read, [shard, limit, 16_384, 0, await server(), 0])
          expectPrimaryKeyOnly(plan, 'outbox')
          expect(plan.map((node) => node['Node Type'])).not.toContain('Sort')
          expect(rowsExamined(plan, 'outbox')).toBe(shard === 15 ? 0 : limit)
        }
      }
    })

    test('O12 copying a shard follows the primary key too', async () => {
      for (const [name, value] of Object.entries({ read_from: '0', server: await server(), last: '0' })) {
        await client.query('select set_config($1, $2, false)', [`txbox.${name}`, value])
      }
      for (const shard of [3, 4, 15]) {
        for (const limit of [10, 1000]) {
          const copy = withLiterals(relay.copy, [shard, limit, 16_384, 0n, '1/2/3', 0n, 1000])
          const plan = await planOf(/copy \((.*)\) to stdout/s.exec(copy)![1]!, [])
          expectPrimaryKeyOnly(plan, 'outbox')
          expect(plan.map((node) => node['Node Type'])).not.toContain('Sort')
          expect(rowsExamined(plan, 'outbox')).toBe(shard === 15 ? 0 : limit)
        }
      }
    })

    test('O12 settling finds each message by the address at which it was read', async () => {
      for (const count of [1, 100, 1000]) {
        const [numbers, stamps, addresses] = await numbersOf(3, count)
        const plan = await planOf(relay.settle, ['outbox/03', 'me', '7', 3, numbers, addresses, stamps])
        expect(
          plan.filter((node) => node['Relation Name'] === 'outbox').map((node) => node['Node Type']),
        ).toEqual(['ModifyTable', 'Tid Scan'])
        expect(rowsExamined(plan, 'outbox')).toBe(count)
      }
    })

    test('O12 settling by number finds each message by the primary key', async () => {
      for (const count of [1, 100, 1000]) {
        const [numbers, stamps] = await numbersOf(3, count)
        const plan = await planOf(relay.settleByNumber, ['outbox/03', 'me', '7', 3, numbers, stamps])
        expectPrimaryKeyOnly(plan, 'outbox')
        // Each row is examined once to find it, and once to delete it.
        expect(rowsExamined(plan, 'outbox')).toBeLessThanOrEqual(2 * count)
      }
    })

    test('O12 large payloads are fetched by the primary key', async () => {
      const [numbers, stamps] = await numbersOf(3, 10)
      const plan = await planOf(relay.readPayloads, [3, numbers, stamps])
      expectPrimaryKeyOnly(plan, 'outbox')
      expect(rowsExamined(plan, 'outbox')).toBe(10)
    })

    test('O12 the query for backlogs costs one look-up in the primary key per shard', async () => {
      const plan = await planOf(relay.work, [shards, shards.map(() => 0), await server(), 0])
      expectPrimaryKeyOnly(plan, 'outbox')
      expect(rowsExamined(plan, 'outbox')).toBeLessThanOrEqual(16)
    })
  })

  // One key has ROWS parked messages; two other keys of its shard have a few.
  describe.each(STATISTICS)('parked, %s', (statistics) => {
    let places: string[]
    let stamps: string[]
    const limits = [1000, 16_384] as const

    beforeAll(async () => {
      const row = `3, case when n = 1 or n = 7 then clock_timestamp() end,
        case when n in (7, 8) then 'key-1' when n in (9, 10) then 'key-2' else 'key-0' end,
        'message-' || n, 't', 'k', 'text/plain', '{}', ''`
      await fill(
        'parked',
        'shard, due_at, order_key, id, topic, key, content_type, headers, payload',
        row,
        statistics,
      )
      ;[places, stamps] = await rowsOf('parked', 'place', "order_key = 'key-0'", 1000)
      await fill(
        'outbox',
        'shard, id, topic, key, content_type, headers, payload',
        "3, 'message-' || n, 't', 'key-' || n % 5, 'text/plain', '{}', ''",
        statistics,
      )
      await client.query(
        `insert into txbox.leases (name, owner, term, expires_at)
         values ('outbox/03', 'me', 7, clock_timestamp() + interval '1 h') on conflict do nothing`,
      )
    })
    const fence = ['outbox/03', 'me', '7'] as const

    /** Checks that each examined row of the table was found by an index. */
    function expectFew(plan: readonly PlanNode[], most: number): void {
      for (const node of plan) {
        if (node['Relation Name'] === 'parked') expect(node['Node Type']).not.toBe('Seq Scan')
      }
      expect(rowsExamined(plan, 'parked')).toBeLessThanOrEqual(most)
    }

    test('O4 a read looks up once per message whether its key is blocked', async () => {
      const plan = await planOf(relay.read, [3, ...limits, 0, await server(), 0])
      expect(rowsExamined(plan, 'outbox')).toBe(1000)
      expectFew(plan, 1001)
    })

    test('O4 due messages are found without the messages that wait behind them', async () => {
      // Each with a look-up of the first message of its key.
      expectFew(await planOf(parked.due, [3, 1000]), 20)
      const work = await planOf(relay.work, [shards, shards.map(() => 0), await server(), 0])
      expectFew(work, 20)
    })

    test('O4 a key continues from a place', async () => {
      const values = [3, ['key-0'], [places[500]], ...limits, [stamps[500]]]
      // Each row is found and read; one more row is the one from which the read continues.
      expectFew(await planOf(parked.readOnward, values), 2 * 1000 + 1)
      expectFew(await planOf(parked.readAlone, [[places[500]], [stamps[500]], 16_384]), 1)
    })

    test('O4 settling touches only the settled messages and the next ones of their keys', async () => {
      const accepted = [places.slice(0, 900), stamps.slice(0, 900)]
      const refused = [[places[900]], [stamps[900]], [1], [100], [false], ['no'], [null], [false]]
      const plan = await planOf(parked.settle, [...fence, ...accepted, ...refused, ['key-0', 'key-1'], 3])
      // Each row is examined once to find it, once to change it, and once to find the next message of its key.
      expectFew(plan, 3 * 904)
    })

    test('O4 keys without a due head are found by one look-up per key', async () => {
      await client.query(
        "update txbox.parked set due_at = null where order_key = 'key-0' and due_at is not null",
      )
      const plan = await planOf(parked.heal, [...fence, 3, '', 10_000])
      expectFew(plan, 20)
    })

    test('O9 suspects are found and marked without reading other messages', async () => {
      const { rows } = await client.query(
        'select place::text as place from txbox.parked as p where id = $1',
        ['message-7'],
      )
      const values = [...fence, 3, rows[0].place, rows[0].place]
      expectFew(await planOf(parked.suspect, values), 2)
      await client.query('update txbox.parked set suspect = true where place = $1', [rows[0].place])
      expectFew(await planOf(parked.readSuspect, [3, 16_384]), 2)
    })

    test('O4 parking behind many messages costs the same as parking behind none', async () => {
      const [numbers, created] = await numbersOf(3, 500)
      const column = <T>(value: T): T[] => numbers.map(() => value)
      const verdicts = [
        numbers,
        created,
        column(0),
        column(null),
        column(false),
        column(null),
        column(null),
        column(false),
      ]
      const plan = await planOf(relay.settleAndPark, [...fence, 3, [], [], ...verdicts])
      expectFew(plan, 0)
      expect(rowsExamined(plan, 'outbox')).toBeLessThanOrEqual(1000)
    })
  })

  describe.each(STATISTICS)('inbox, %s', (statistics) => {
    const keys = Array.from({ length: 100 }, (_, n) => `key-${(n + 1) * 2000}`)
    const fresh = keys.map((key) => `new ${key}`)
    const week = '7 days'

    test('I3 I13 every statement of the inbox finds its rows by the primary key', async () => {
      const expiry = "clock_timestamp() + case when n % 4000 = 0 then interval '-1 h' else interval '1 h' end"
      await fill(
        'inbox',
        'consumer, key, processed_at, expires_at',
        `'consumer', 'key-' || n, clock_timestamp(), ${expiry}`,
        statistics,
      )
      const none = keys.map(() => null)
      const all: [string, readonly unknown[], number][] = [
        [inbox.claim, ['consumer', 'key-7', null, week], 0],
        [inbox.claim, ['consumer', 'new', null, week], 0],
        [inbox.read, ['consumer', 'key-7'], 1],
        [inbox.find, ['consumer', 'key-7'], 1],
        [inbox.renew, ['consumer', 'key-4000', null, week], 1],
        [inbox.remove, ['consumer', 'key-7'], 1],
        // Half of the keys are expired: each is read, locked and changed.
        ...[inbox.claimBatch, inbox.claimBatchWith, inbox.claimBatchReported].flatMap(
          (text): [string, readonly unknown[], number][] => {
            const extras = text === inbox.claimBatch ? [] : [none, none]
            return [
              [text, ['consumer', fresh, none, week, ...extras], 0],
              [text, ['consumer', keys, none, week, ...extras], 200],
            ]
          },
        ),
      ]
      for (const [text, values, most] of all) {
        const plan = await planOf(text, values)
        expectPrimaryKeyOnly(plan, 'inbox')
        expect(rowsExamined(plan, 'inbox'), text).toBeLessThanOrEqual(most)
      }
    })
  })
})
