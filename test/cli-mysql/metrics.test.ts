import { createConnection } from 'mysql2/promise'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { txbox } from '../cli/run-txbox.ts'
import { startMetrics } from '../cli/use-metrics.ts'
import { valueOf } from '../support/subjects/metrics-text.ts'
import { createDatabase } from '../support/engines/servers/mysql-databases.ts'

let url = ''
let drop: (() => Promise<void>) | undefined

beforeAll(async () => {
  const [serverUrl] = inject('needs').map((name) => inject('servers')[name])
  ;({ url, drop } = await createDatabase(serverUrl ?? ''))
  await txbox(['migrate'], { DATABASE_URL: url })
})
afterAll(() => drop?.())

async function sql(...texts: string[]): Promise<void> {
  const connection = await createConnection(url)
  for (const text of texts) await connection.query(text)
  await connection.end()
}

/** A row, stored two hours ago. */
function row(table: string, columns: Record<string, string>): string {
  const all = {
    shard: '0',
    topic: "'orders'",
    content_type: "'application/json'",
    headers: "'{}'",
    payload: "'{}'",
    created_at: 'utc_timestamp(6) - interval 2 hour',
    ...columns,
  }
  return `insert into txbox_${table} (${Object.keys(all).join(',')}) values (${Object.values(all).join(',')})`
}

test('the gauges of the tables are read at the scrape, and a relay and a collector add their own', async () => {
  await sql(
    row('parked', { id: "'p'", due_at: 'utc_timestamp(6) + interval 1 hour', attempts: '1' }),
    row('parked', { id: "'d'", dead_at: 'utc_timestamp(6)', attempts: '3' }),
    row('queue', { id: "'q'", topic: "'wörk'", due_at: 'utc_timestamp(6)' }),
    "insert into txbox_subscriptions (type, consumer, registered_at) values ('order', 'mailer', utc_timestamp(6))",
  )
  const gc = await startMetrics(['gc', '--interval-ms', '3600000'], url)
  const found = await gc.scrape()
  expect(valueOf(found, 'txbox_metrics_stale')).toBe(0)
  expect(valueOf(found, 'txbox_oldest_due_age_seconds')).toBeCloseTo(7200, -2)
  expect(valueOf(found, 'txbox_oldest_due_age_seconds', { queue: 'wörk' })).toBeCloseTo(7200, -2)
  expect(valueOf(found, 'txbox_oldest_due_age_seconds', { consumer: 'mailer' })).toBe(0)
  expect(valueOf(found, 'txbox_outbox_backlog_messages')).toBe(0)
  expect(valueOf(found, 'txbox_outbox_parked_messages', { reason: 'retry' })).toBe(1)
  expect(valueOf(found, 'txbox_outbox_dead_letters')).toBe(1)
  expect(valueOf(found, 'txbox_queue_messages', { queue: 'wörk', state: 'due' })).toBe(1)
  expect(valueOf(found, 'txbox_inbox_retention_rows', { table: 'inbox' })).toBe(0)
  const relay = await startMetrics(['relay', '--publisher', 'stdout:'], url)
  const ofRelay = await relay.scrape()
  expect(valueOf(ofRelay, 'txbox_metrics_stale')).toBe(0)
  expect(valueOf(ofRelay, 'txbox_relay_publisher_up')).toBe(1)
  expect([(await relay.stop()).code, (await gc.stop()).code]).toEqual([0, 0])
})
