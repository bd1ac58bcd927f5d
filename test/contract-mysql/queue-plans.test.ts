import { createPool, type Pool } from 'mysql2/promise'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { tablesOf } from '../../packages/mysql/src/connection/identifiers.ts'
import { fill } from '../../packages/mysql/src/connection/literals.ts'
import { inspectionStatements } from '../../packages/mysql/src/operate/inspection-statements.ts'
import { queueReceiveStatements } from '../../packages/mysql/src/queue/queue-receive-statements.ts'
import { queueStatements } from '../../packages/mysql/src/queue/queue-statements.ts'
import { rowsExamined } from '../support/engines/mysql-reads.ts'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { QUEUE, QueueStoreUnderTest } from '../support/subjects/queue-store-under-test.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))
const tables = tablesOf('test', 'txbox_')
const receive = queueReceiveStatements(tables, target.engine as 'mysql')
const queue = queueStatements(tables)
const inspection = inspectionStatements(tables)
const ROWS = inject('tier') === 'all' ? 50_000 : 20_000
const RECEIPT = Buffer.alloc(16, 7)
let pool: Pool

beforeAll(async () => {
  pool = createPool({ uri: await databaseUrl(target), connectionLimit: 1 })
})
afterAll(() => pool.end())

/** One key has nearly all messages, which wait behind the first one; two other keys of its shard have a few. */
async function fillTable(): Promise<void> {
  for (let from = 1; from <= ROWS; from += 10_000) {
    const rows = Array.from({ length: 10_000 }, (_, index) => {
      const n = from + index
      const key = n === 7 || n === 8 ? 'key-1' : n === 9 ? 'key-2' : 'key-0'
      const due =
        n === 1 || n === 7 ? 'utc_timestamp(6) + interval 1 hour' : n === 9 ? 'utc_timestamp(6)' : 'null'
      const receipt = n === 1 || n === 7 ? `X'${RECEIPT.toString('hex')}'` : 'null'
      return `(${n}, utc_timestamp(6), ${due}, ${receipt}, 3, '${key}', 'm${n}', '${QUEUE}', '${key}', 't', '{}', '')`
    })
    await pool.query(
      `insert into txbox_queue (place, created_at, due_at, receipt, shard, order_key, id, topic, \`key\`, content_type, headers, payload)
       values ${rows.join()}`,
    )
  }
}

test('Q13 the rows that a receive examines do not depend on how many messages wait behind a blocked key', async () => {
  await fillTable()
  // The server does this by itself after some seconds.
  await pool.query('analyze table txbox_queue')
  const at = [{ utf8: QUEUE }, 3]
  const keys = JSON.stringify(['key-0', 'key-1', 'key-2'].map((key) => Buffer.from(key).toString('hex')))
  const pairs = (...places: number[]): string[] => places.map((place) => fill(queue.pair, [place, RECEIPT]))
  const all: Record<string, readonly [statement: string, most: number]> = {
    'looks for work': [fill(receive.readyShard, [3, { utf8: QUEUE }, 3]), 10],
    'finds what is handled': [fill(receive.findHandled, [...at, 1000]), 10],
    'finds what is visible': [fill(receive.findDue, [...at, 1, 1, 0, 1000]), 10],
    'finds out what there is of the keys': [fill(receive.heads, [...at, ...at, keys]), 60],
    'locks messages': [fill(receive.lock, ['[1,7,9]']), 30],
    'lets messages go on': [fill(receive.release, ['[2]']), 20],
    'puts messages back': [fill(receive.putBack, ['[[9,0]]']), 20],
    'takes messages': [fill(receive.take, ['[[9,0]]', RECEIPT, 1_000_000]), 20],
    'buries messages': [fill(receive.buryAll, ['[9]', 'x']), 20],
    'reads messages': [fill(receive.read, [1000, '[1,7,9]']), 30],
    'removes messages': [fill(receive.remove, ['[9]']), 20],
    'settles one message': [fill(queue.settle(pairs(1)), [[1], at[0]!]), 10],
    'settles messages': [fill(queue.settle(pairs(1, 7)), [[1, 7], at[0]!]), 20],
    'holds messages': [fill(queue.holdValid(pairs(1, 7)), [[1, 7], at[0]!]), 20],
    'looks at the first of each key': [fill(inspection.firstOfKeys, [20_000, 100]), 60],
    'gives a message back': [fill(queue.giveBack, [0, null, 0, 1, RECEIPT, at[0]!]), 10],
  }
  for (const [what, [statement, most]] of Object.entries(all)) {
    expect(await rowsExamined(pool, statement), what).toBeLessThanOrEqual(most)
  }
})

test('Q13 a key with very many visible messages delays other keys by one receive', async () => {
  await pool.query(
    'update txbox_queue set due_at = utc_timestamp(6) - interval 1 second where due_at is null',
  )
  await pool.query(
    'update txbox_queue set receipt = null, due_at = utc_timestamp(6) - interval 1 second where place in (1, 7)',
  )
  await pool.query('update txbox_queue set due_at = utc_timestamp(6) where place = 9')
  const store = new QueueStoreUnderTest(root)
  const ids = new Set<string>()
  for (let n = 0; n < 3; n += 1) for (const { id } of await store.receive({ limit: 1 })) ids.add(id)
  expect([...ids].sort()).toEqual(['m1', 'm7', 'm9'])
  const began = performance.now()
  expect(await store.receive()).toEqual([])
  expect(performance.now() - began).toBeLessThan(1000)
  const [waiting] = await pool.query('select count(*) as n from txbox_queue where due_at is null')
  expect((waiting as { n: number }[])[0]!.n).toBe(ROWS - 3)
}, 120_000)
