import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { inspectionStatements } from '../../packages/postgres/src/operate/inspection-statements.ts'
import { localInspectionStatements } from '../../packages/postgres/src/operate/local-inspection-statements.ts'
import { planOf, rowsExamined } from '../support/engines/postgres-plans.ts'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'

/** Half a million rows, if the environment asks for as many. */
const ROWS = Number(process.env['TXBOX_TEST_ROWS'] ?? 50_000)
const LIMIT = 1000
const inspection = inspectionStatements('txbox')
const local = localInspectionStatements('txbox')

/** A third of the rows each waits behind a message of its key, is dead, and waits for its time, in this order. A few were refused. */
const KINDS = `select n, n <= 100 as refused, n > 100 and n < ${ROWS / 3} as behind, n >= ${ROWS / 3} and n < ${(2 * ROWS) / 3} as dead,
    case when n >= ${(2 * ROWS) / 3} then now() + n * interval '1 s' end as later`

describe(`tables of ${ROWS} rows`, () => {
  const target = useTarget()
  let client: Client

  beforeAll(async () => {
    client = new Client(await databaseUrl(target))
    client.on('error', () => undefined)
    await client.connect()
    for (const table of ['parked', 'local_parked'])
      await client.query(`alter table txbox.${table} set (autovacuum_enabled = false)`)
  })
  afterAll(() => client.end())

  async function fill(table: 'parked' | 'local_parked', from: number, to: number): Promise<void> {
    const [consumer, value] = table === 'parked' ? ['', ''] : ['consumer, ', "'billing', "]
    await client.query(
      `insert into txbox.${table} (${consumer}deliver_at, due_at, dead_at, attempts, order_key, shard, id, topic, key, content_type, headers, payload)
       select ${value}later, case when refused then now() else later end, case when dead then now() end, case when refused then 1 else 0 end,
         case when behind or refused then 'key-' || n % 50 end, n % 16, 'message-' || n, 't', 'k', 't', '{}', repeat('x', 300)::bytea
       from (${KINDS} from generate_series(${from}, ${to}) as n) as kinds`,
    )
  }

  /** The number of rows of the table that the statement has examined. */
  async function looksOf(table: string, text: string, values: readonly unknown[]): Promise<number> {
    return rowsExamined(await planOf(client, text, values), table)
  }

  test.each(['analysed at five rows', 'analysed'])(
    'the counts of parked messages and dead letters examine as many rows as they count, %s',
    async (statistics) => {
      for (const table of ['parked', 'local_parked'] as const) {
        await client.query(`truncate txbox.${table}`)
        await fill(table, 1, 5)
        await client.query(`analyze txbox.${table}`)
        await fill(table, 6, ROWS)
        if (statistics === 'analysed') await client.query(`analyze txbox.${table}`)
      }
      expect(await looksOf('parked', inspection.figures, [LIMIT])).toBeLessThanOrEqual(3 * LIMIT + 10)
      const values = [LIMIT, 'billing']
      expect(await looksOf('local_parked', local.localFigures, values)).toBeLessThanOrEqual(3 * LIMIT + 10)
    },
  )
})
