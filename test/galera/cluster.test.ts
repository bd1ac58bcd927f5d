import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { Pool } from 'mysql2/promise'
import { portsKey } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { migrate } from '@txbox/mysql'
import { createOutbox, type Outbox } from '@txbox/outbox'
import type { Publisher } from '@txbox/relay'
import { poolOf } from '../support/engines/mysql-pool.ts'
import { execOn, mysql2Root } from '../support/engines/mysql-roots.ts'
import { createDatabase } from '../support/engines/servers/mysql-databases.ts'
import type { OpenTransaction, Root, Row } from '../support/engines/target.ts'
import { RelayUnderTest } from '../support/subjects/relay-under-test.ts'
import { until } from '../support/worlds/until.ts'

/** A root and a pool on each node, in one database. */
interface Node {
  readonly root: Root
  readonly pool: Pool
}

const nodes: Node[] = []
let drop: (() => Promise<void>) | undefined

beforeAll(async () => {
  const servers = inject('servers')['galera']!.split(',')
  const created = await createDatabase(servers[0]!)
  drop = created.drop
  for (const server of servers) {
    const url = new URL(server)
    url.pathname = new URL(created.url).pathname
    const pool = poolOf(url.href, { connectionLimit: 12 })
    await settled(pool.promise(), 'select 1')
    nodes.push({ root: mysql2Root(pool, {}, 'promise'), pool: pool.promise() })
  }
  const [{ pool }] = nodes as [Node]
  await migrate(pool)
  await pool.query('create table effects (seq int auto_increment primary key, name varchar(100) not null)')
  await pool.query('create table counters (name varchar(100) primary key, n int not null)')
  for (const node of nodes) await settled(node.pool, 'select n from counters')
})

afterAll(async () => {
  for (const { root } of nodes) await root.close()
  await drop?.()
})

/** Resolves when a node answers, because it has applied what the statement needs. */
async function settled(pool: Pool, statement: string): Promise<void> {
  await until(
    async () =>
      pool.query(statement).then(
        () => true,
        () => false,
      ),
    () => `a node answers ${statement}`,
  )
}

async function rowsOf(pool: Pool, text: string, values: readonly unknown[] = []): Promise<readonly Row[]> {
  const [rows] = await pool.query(text, [...values])
  return rows as Row[]
}

/** Columns and indexes of the tables of a prefix, as a node has them. */
async function shapeOf(pool: Pool, prefix: string): Promise<readonly unknown[]> {
  return rowsOf(
    pool,
    `select concat_ws(' ', 'column', table_name, ordinal_position, column_name, column_type, is_nullable) as line
     from information_schema.columns where table_schema = database() and left(table_name, ?) = ?
     union all
     select concat_ws(' ', 'index', table_name, index_name, seq_in_index, column_name)
     from information_schema.statistics where table_schema = database() and left(table_name, ?) = ?
     order by line`,
    [prefix.length, prefix, prefix.length, prefix],
  ).then((rows) => rows.map(({ line }) => String(line).replaceAll(prefix, '')))
}

describe('migrate', () => {
  test('migrations that start together on several nodes all resolve, and create the tables once', async () => {
    const clean = await shapeOf(nodes[0]!.pool, 'txbox_')
    for (let round = 1; round <= 5; round++) {
      const prefix = `round${round}_`
      const callers = nodes.flatMap(({ pool }) => [pool, pool, pool])
      const results = await Promise.all(callers.map((pool) => migrate(pool, { prefix })))
      expect(results.filter(({ applied }) => applied.length > 0).length).toBe(1)
      for (const { pool } of nodes) {
        expect(await shapeOf(pool, prefix)).toEqual(clean)
        // The lock has been released.
        await until(
          async () => (await rowsOf(pool, `select 1 from ${prefix}migrations where number = 0`)).length === 0,
          () => 'the row of the lock is gone',
        )
      }
    }
  })

  test('migrate waits for the lock of another node, and takes over an expired lock', async () => {
    const prefix = 'held_'
    const [first, second] = nodes as [Node, Node]
    await migrate(first.pool, { prefix })
    await first.pool.query(`delete from ${prefix}migrations order by number desc limit 1`)
    await first.pool.query(
      `insert into ${prefix}migrations (number, title, applied_at)
       values (0, 'lock of another', utc_timestamp(6) + interval 1 hour)`,
    )
    await settledRows(second.pool, `select 1 from ${prefix}migrations where number = 0`, 1)
    const signal = AbortSignal.timeout(500)
    await expect(migrate(second.pool, { prefix, signal })).rejects.toThrow(/abort/i)
    await first.pool.query(
      `update ${prefix}migrations set applied_at = utc_timestamp(6) - interval 1 second where number = 0`,
    )
    expect((await migrate(second.pool, { prefix })).applied).toHaveLength(1)
  })

  test('an error of every attempt reaches the caller', async () => {
    const { pool } = nodes[0]!
    await pool.query('create view broken_migrations as select 1 as number')
    await expect(migrate(pool, { prefix: 'broken_' })).rejects.toThrow(/broken_migrations|applied_at|title/)
  })
})

test('I4 concurrent deliveries of one message on all nodes take effect once', async () => {
  const consumer = `consumer-${randomUUID()}`
  const deliveries = Array.from({ length: 20 }, (_, n) => {
    const inbox = createInbox({ database: nodes[n % nodes.length]!.root.database, consumer })
    return inbox.run({ id: 'x' }, async (tx) => {
      await execOn(tx, 'insert into effects (name) values (?)', [consumer])
    })
  })
  const outcomes = await Promise.all(deliveries)
  expect(outcomes.filter(({ status }) => status === 'processed').length).toBe(1)
  const { pool } = nodes[0]!
  await settledRows(pool, `select 1 from effects where name = '${consumer}'`, 1)
})

describe('the order of a key', () => {
  test('O3 a changed row orders messages that are published on several nodes', async () => {
    const { pool } = nodes[0]!
    await pool.query("insert into counters (name, n) values ('order', 0)")
    await settledRows(nodes.at(-1)!.pool, "select 1 from counters where name = 'order'", 1)
    const publishers = nodes.flatMap(({ root }) => [root, root])
    await Promise.all(
      publishers.map(async (root) => {
        const outbox = createOutbox({ database: root.database })
        for (let n = 0; n < 30; n++) await publishOne(root, outbox)
      }),
    )
    const expected = publishers.length * 30
    for (const node of nodes) {
      await settledRows(node.pool, "select 1 from txbox_outbox where topic = 'order'", expected)
      const stored = await rowsOf(
        node.pool,
        "select cast(payload as char) as n from txbox_outbox where topic = 'order' order by seq",
      )
      expect(stored.map((row) => Number(row['n']))).toEqual(
        Array.from({ length: expected }, (_, index) => index + 1),
      )
    }
  })

  test('O3 a lock excludes no transaction on another node; of two transactions that change the row, one is rolled back', async () => {
    const [first, second] = nodes as [Node, Node]
    await first.pool.query("insert into counters (name, n) values ('lock', 0)")
    await settledRows(second.pool, "select 1 from counters where name = 'lock'", 1)
    const lock = "select n from counters where name = 'lock' for update"

    const [one, other] = [await first.root.begin(), await second.root.begin()]
    await one.exec(lock)
    // On a single server this would wait.
    await other.exec(lock)
    await other.commit()
    await one.commit()

    const [early, late] = [await first.root.begin(), await second.root.begin()]
    await early.exec("update counters set n = n + 1 where name = 'lock'")
    await late.exec("update counters set n = n + 1 where name = 'lock'")
    await early.commit()
    await expect(late.commit()).rejects.toMatchObject({ errno: 1213 })
  })
})

test('O1 O3 relays on several nodes publish every message, and the first copies of a key in order', async () => {
  const count = 400
  const first = new Map<string, number[]>()
  const seen = new Set<string>()
  const publisher: Publisher = {
    async publish(messages) {
      return messages.map((message) => {
        const numbers = first.get(message.key!) ?? []
        first.set(message.key!, numbers)
        if (!seen.has(message.id)) numbers.push(message.json<number>())
        seen.add(message.id)
        return { status: 'accepted' as const }
      })
    },
  }
  for (const { root } of nodes) await RelayUnderTest.started(root, publisher)
  // Each key is published on one node, so that its order is known.
  await Promise.all(
    nodes.map(async ({ root }, node) => {
      const outbox = createOutbox({ database: root.database })
      for (let n = 0; n < count; n++) {
        const transaction = await root.begin()
        await outbox.publish(transaction.tx, { topic: 'relayed', key: `${node} ${n % 10}`, payload: n })
        await transaction.commit()
      }
    }),
  )
  const relayed = (): number[][] => [...first].filter(([key]) => / /.test(key)).map(([, numbers]) => numbers)
  await until(
    async () => relayed().flat().length === nodes.length * count,
    () => `${nodes.length * count} messages; there are ${relayed().flat().length}`,
  )
  for (const numbers of relayed()) expect(numbers).toEqual(numbers.toSorted((a, b) => a - b))
})

test('doctor names the cluster and its consequences', async () => {
  for (const { root } of nodes) {
    const findings = await root.database[portsKey].inspection().diagnose({ longTransactionMs: 60_000 })
    expect(findings).toContainEqual(
      expect.objectContaining({
        check: 'cluster',
        verdict: 'warning',
        found: expect.stringContaining('Galera'),
      }),
    )
  }
})

/** Changes the counter and publishes its new value, and repeats both as long as the cluster reports conflicts. */
async function publishOne(root: Root, outbox: Outbox): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    let transaction: OpenTransaction | undefined
    try {
      transaction = await root.begin()
      await transaction.exec("update counters set n = n + 1 where name = 'order'")
      const [row] = await transaction.exec("select n from counters where name = 'order'")
      await outbox.publish(transaction.tx, { topic: 'order', key: 'k', payload: row?.['n'] as number })
      await transaction.commit()
      return
    } catch (error) {
      await transaction?.rollback().catch(() => undefined)
      if (attempt === 500) throw error
    }
  }
}

async function settledRows(pool: Pool, statement: string, count: number): Promise<void> {
  let found = 0
  await until(
    async () => (found = (await rowsOf(pool, statement)).length) === count,
    () => `${count} rows of ${statement}; there are ${found}`,
  )
}
