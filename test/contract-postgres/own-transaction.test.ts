import { Pool } from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { postgres } from '@txbox/postgres'
import type { Statement } from '@txbox/sql/transactions'
import {
  inOwnTransaction,
  type OwnTransaction,
} from '../../packages/postgres/src/connection/own-transaction.ts'
import { pgRoot } from '../../packages/sql/src/transactions/drivers/pg-root.ts'
import { QueueStoreUnderTest } from '../support/subjects/queue-store-under-test.ts'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'

const target = useTarget()
let pool: Pool
/** The number of round trips. */
let trips = 0

beforeAll(async () => {
  pool = new Pool({ connectionString: await databaseUrl(target), max: 1 })
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown
    Object.assign(client, {
      query(...args: unknown[]) {
        trips += 1
        return query(...args)
      },
    })
  })
  await pool.query('create table written (n int primary key)')
})
beforeEach(async () => {
  await pool.query('delete from written')
  trips = 0
})
afterAll(() => pool.end())

const insert = (n: number): Statement => ({
  text: 'insert into written values ($1) returning n::text as n',
  values: [n],
})

describe.each(['in one flight', 'one by one'])('statements of an own transaction, %s', (how) => {
  const oneByOne: typeof pgRoot = {
    ...pgRoot,
    async connect(root) {
      const { query, release } = await pgRoot.connect(root)
      return { query, release }
    },
  }
  const root = how === 'in one flight' ? pgRoot : oneByOne
  const run = <R>(work: (transaction: OwnTransaction) => Promise<R>): Promise<R> =>
    inOwnTransaction({ root, db: pool, statementTimeoutMs: 5000 }, work)

  test('each has its result, and they commit together', async () => {
    const results = await run(async ({ query, queryAll, commitWith }) => [
      await query(insert(1).text, insert(1).values),
      ...(await queryAll([insert(2), { text: 'select n::text as n from written order by n', values: [] }])),
      ...(await commitWith([insert(3)])),
    ])
    expect(results.slice(0, 4).map(({ rows }) => rows.map(({ n }) => n))).toEqual([
      ['1'],
      ['2'],
      ['1', '2'],
      ['3'],
    ])
    expect((await pool.query('select from written')).rowCount).toBe(3)
  })

  test.each(['first', 'middle', 'last'])(
    'a %s statement that fails rolls all of them back',
    async (which) => {
      const failing = { text: 'select 1 / $1::int', values: [0] }
      const inPlace = {
        first: [failing, insert(1), insert(2)],
        middle: [insert(1), failing, insert(2)],
        last: [insert(1), insert(2), failing],
      }[which]!
      await expect(run(({ commitWith }) => commitWith(inPlace))).rejects.toMatchObject({ code: '22012' })
      expect((await pool.query('select from written')).rowCount).toBe(0)
      const { rows } = await pool.query('select pg_catalog.now() = pg_catalog.statement_timestamp() as alone')
      expect(rows).toEqual([{ alone: true }])
    },
  )

  test('work that throws rolls back what was written', async () => {
    const work = run(async ({ query }) => {
      await query(insert(1).text, insert(1).values)
      throw new Error('of the work')
    })
    await expect(work).rejects.toThrow('of the work')
    expect((await pool.query('select from written')).rowCount).toBe(0)
  })
})

test('a receive takes three round trips, and two in an empty queue, however many shards have messages', async () => {
  const queue = new QueueStoreUnderTest({ database: postgres({ db: pool } as never) as never })
  const keys = Array.from({ length: 8 }, (_, n) => `key-${n}`)
  await queue.send('key')
  expect(await queue.receive({ remove: true })).toHaveLength(1)
  await queue.send(...keys)
  expect(await queue.receive({ limit: 1 })).toHaveLength(1)
  trips = 0
  const received = await queue.receive({ limit: 3 })
  expect(received).toHaveLength(3)
  expect(trips).toBe(3)
  for (const each of received) expect(await queue.store.settle(undefined, [each])).toEqual([true])
  while ((await queue.receive({ limit: 100, remove: true })).length > 0);
  trips = 0
  expect(await queue.receive()).toEqual([])
  expect(trips).toBe(2)
})

test('a receive of messages without a key takes one round trip, and one in an empty queue', async () => {
  const queue = new QueueStoreUnderTest({ database: postgres({ db: pool } as never) as never })
  await queue.send(...Array.from({ length: 8 }, () => undefined))
  trips = 0
  expect(await queue.receive({ limit: 8 })).toHaveLength(8)
  expect(await queue.receive()).toEqual([])
  expect(trips).toBe(2)
})
