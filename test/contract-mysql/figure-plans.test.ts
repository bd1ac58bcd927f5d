import { createPool, type Pool } from 'mysql2/promise'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { tablesOf } from '../../packages/mysql/src/connection/identifiers.ts'
import { fill } from '../../packages/mysql/src/connection/literals.ts'
import { inspectionStatements } from '../../packages/mysql/src/operate/inspection-statements.ts'
import { localInspectionStatements } from '../../packages/mysql/src/operate/local-inspection-statements.ts'
import { rowsExamined } from '../support/engines/mysql-reads.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const inspection = inspectionStatements(tablesOf('test', 'txbox_'))
const local = localInspectionStatements(tablesOf('test', 'txbox_'))
/** Half a million rows, if the environment asks for as many. */
const ROWS = Number(process.env['TXBOX_TEST_ROWS'] ?? 60_000)
const LIMIT = 1000
let pool: Pool

beforeAll(async () => {
  pool = createPool({ uri: outbox.url(), connectionLimit: 1 })
})
afterAll(() => pool.end())

/** A share of the rows each waits for its time, waits behind a message of its key, and is dead. A few were refused. */
async function fillTables(): Promise<void> {
  for (let from = 1; from <= ROWS; from += 10_000) {
    const rows = Array.from({ length: 10_000 }, (_, index) => {
      const n = from + index
      const isRefused = n % 3 === 1 && n <= 100
      const later = n % 3 === 0 ? `utc_timestamp(6) + interval ${n} second` : 'null'
      const due = isRefused ? 'utc_timestamp(6)' : later
      const dead = n % 3 === 2 ? 'utc_timestamp(6)' : 'null'
      const key = n % 3 === 1 ? `'key-${n % 50}'` : 'null'
      return `(utc_timestamp(6), ${later}, ${due}, ${dead}, ${isRefused ? 1 : 0}, ${key}, ${n % 16}, 'm${n}', 't', 'k', 't', '{}', ''`
    })
    const columns =
      'created_at, deliver_at, due_at, dead_at, attempts, order_key, shard, id, topic, `key`, content_type, headers, payload'
    await pool.query(`insert into txbox_parked (${columns}) values ${rows.map((row) => `${row})`).join()}`)
    await pool.query(
      `insert into txbox_local_parked (${columns}, consumer) values ${rows.map((row) => `${row}, 'billing')`).join()}`,
    )
  }
}

test('the counts of parked messages and dead letters examine as many rows as they count', async () => {
  await fillTables()
  const name = Buffer.from('billing')
  const counts = [name, LIMIT, name, LIMIT, name, LIMIT]
  const figures = fill(
    inspection.figures,
    Array.from({ length: 5 }, () => LIMIT),
  )
  const ofConsumer = fill(local.localFigures, [
    ...counts,
    ...Array.from({ length: 16 }, () => name),
    name,
    LIMIT,
  ])
  for (const analyzed of [false, true]) {
    // The server does this by itself after some seconds.
    if (analyzed) await pool.query('analyze table txbox_parked, txbox_local_parked')
    // Rows of temporary results, which have as many rows again, are counted by the server too.
    for (const statement of [figures, ofConsumer]) {
      expect(await rowsExamined(pool, statement), analyzed ? 'analyzed' : 'not analyzed').toBeLessThanOrEqual(
        7 * LIMIT,
      )
    }
  }
})
