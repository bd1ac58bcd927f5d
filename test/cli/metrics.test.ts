import { Client } from 'pg'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import { parseMetrics, valueOf } from '../support/subjects/metrics-text.ts'
import { Proxy } from '../support/worlds/proxy.ts'
import { until } from '../support/worlds/until.ts'
import { startMetrics } from './use-metrics.ts'
import { claims, parked, useShop } from './use-shop.ts'

const shop = useShop()
beforeEach(() =>
  shop.sql('truncate txbox.outbox, txbox.parked, txbox.queue, txbox.subscriptions, txbox.inbox'),
)
const GC = ['gc', '--interval-ms', '3600000']
const RELAY = ['relay', '--publisher', 'stdout:']
/** What the documentation promises, and what a busy machine adds. */
const ANSWER_MS = 4000

async function connected(): Promise<Client> {
  const client = new Client(shop.url)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** Stores messages, the oldest of which is due since the given time. */
async function backlog(count: number, dueForSeconds: number): Promise<void> {
  const client = await connected()
  await client.query('begin')
  const messages = Array.from({ length: count }, (_, n) => ({ topic: 'orders', payload: { secret: n } }))
  await createOutbox({ database: postgres() }).publish(client, messages)
  await client.query(`update txbox.outbox set created_at = created_at - interval '${dueForSeconds} seconds'`)
  await client.query('commit')
}

test('without a relay, the gauges of the tables are read at the scrape, and no payload is in the metrics', async () => {
  await backlog(3, 600)
  const past = "now() - interval '1 hour'"
  await shop.sql(parked('p1', { created_at: past, due_at: 'now()', attempts: '1', order_key: "'k'" }))
  await shop.sql(
    parked('p2', {
      created_at: past,
      deliver_at: "now() + interval '1 hour'",
      due_at: "now() + interval '1 hour'",
    }),
  )
  for (const id of ['k1', 'k2']) await shop.sql(parked(id, { created_at: past, order_key: "'k'" }))
  await shop.sql(parked('d1', { created_at: past, dead_at: 'now()', attempts: '3' }))
  await shop.sql(
    parked('q1', { topic: `'wo"rk'`, created_at: "now() - interval '2 hours'", due_at: 'now()' }, 'queue'),
  )
  await shop.sql(`insert into txbox.subscriptions (type, consumer) values ('order', 'mailer')`)
  await shop.sql(claims(0, 5))
  const gc = await startMetrics(GC, shop.url)
  const found = await gc.scrape()
  expect(valueOf(found, 'txbox_metrics_stale')).toBe(0)
  expect(valueOf(found, 'txbox_oldest_due_age_seconds')).toBeCloseTo(3600, -2)
  expect(valueOf(found, 'txbox_oldest_due_age_seconds', { queue: 'wo"rk' })).toBeCloseTo(7200, -2)
  expect(valueOf(found, 'txbox_oldest_due_age_seconds', { consumer: 'mailer' })).toBe(0)
  expect(valueOf(found, 'txbox_outbox_backlog_messages')).toBe(3)
  expect(valueOf(found, 'txbox_outbox_backlog_messages', { consumer: 'mailer' })).toBe(0)
  expect(valueOf(found, 'txbox_outbox_backlog_age_seconds')).toBeCloseTo(600, -2)
  expect(valueOf(found, 'txbox_outbox_parked_messages', { reason: 'retry' })).toBe(1)
  expect(valueOf(found, 'txbox_outbox_parked_messages', { reason: 'key' })).toBe(2)
  expect(valueOf(found, 'txbox_outbox_parked_messages', { reason: 'key', consumer: 'mailer' })).toBe(0)
  expect(valueOf(found, 'txbox_outbox_backlog_age_seconds', { consumer: 'mailer' })).toBe(0)
  expect(valueOf(found, 'txbox_outbox_parked_messages', { reason: 'scheduled' })).toBe(1)
  expect(valueOf(found, 'txbox_outbox_dead_letters')).toBe(1)
  expect(valueOf(found, 'txbox_queue_messages', { queue: 'wo"rk', state: 'due' })).toBe(1)
  expect(valueOf(found, 'txbox_queue_messages', { queue: 'wo"rk', state: 'in_flight' })).toBe(0)
  expect(valueOf(found, 'txbox_queue_age_seconds', { queue: 'wo"rk' })).toBeLessThan(60)
  expect(valueOf(found, 'txbox_inbox_retention_rows', { table: 'inbox' })).toBe(5)
  expect(found.filter(({ name }) => name.startsWith('txbox_relay'))).toEqual([])
  expect(JSON.stringify(found)).not.toContain('secret')
  expect(await (await gc.get('/readyz')).json()).toEqual({ ok: true })
  expect((await gc.get('/other')).status).toBe(404)
  expect((await gc.stop()).code).toBe(0)
})

test('a relay adds its shards, its publisher and what it has published, and a collector what it has removed', async () => {
  await shop.sql(claims(4, 1))
  await backlog(7, 5)
  const relay = await startMetrics(RELAY, shop.url)
  const gc = await startMetrics(GC, shop.url)
  await until(
    async () =>
      valueOf(await relay.scrape(), 'txbox_relay_messages_total', { outcome: 'accepted' }) === 7 &&
      valueOf(await gc.scrape(), 'txbox_gc_removed_rows_total', { table: 'inbox' }) === 4,
    () => 'the relay has published, and the collector has collected',
  )
  const found = await relay.scrape()
  expect(valueOf(found, 'txbox_relay_messages_total', { outcome: 'dead_lettered' })).toBe(0)
  expect(valueOf(found, 'txbox_relay_latency_seconds_count')).toBe(7)
  expect(valueOf(found, 'txbox_relay_shards')).toBe(16)
  expect(valueOf(found, 'txbox_relay_publisher_up')).toBe(1)
  expect(valueOf(found, 'txbox_relay_leases_lost_total', { reason: 'taken' })).toBe(0)
  expect(found.find(({ name }) => name === 'target_info')?.labels).toEqual({
    service_name: 'txbox-relay',
    service_version: expect.stringMatching(/^\d/),
  })
  expect(valueOf(await gc.scrape(), 'txbox_gc_duration_seconds_count')).toBe(1)
  expect([(await relay.stop()).code, (await gc.stop()).code]).toEqual([0, 0])
})

test('a relay without its broker is not up', async () => {
  await backlog(1, 5)
  const relay = await startMetrics(['relay', '--publisher', 'amqp://guest:secret@127.0.0.1:1'], shop.url)
  await until(
    async () => valueOf(await relay.scrape(), 'txbox_relay_publisher_up') === 0,
    () => 'the publisher is down',
  )
  await relay.stop()
})

test('figures are read at most every 5 s; without its database, a scrape has the last figures within seconds, marked as stale, until the database is back', async () => {
  await backlog(2, 60)
  const url = new URL(shop.url)
  const proxy = await Proxy.to({ host: url.hostname, port: Number(url.port || 5432) })
  onTestFinished(() => proxy.close())
  url.host = `127.0.0.1:${proxy.address.port}`
  const gc = await startMetrics(GC, url.href)
  const readAt = performance.now()
  expect(valueOf(await gc.scrape(), 'txbox_metrics_stale')).toBe(0)
  await backlog(1, 60)
  const gone = proxy.refuse()
  await until(
    async () => {
      const begun = performance.now()
      const found = parseMetrics(await (await gc.get('/metrics')).text())
      expect(performance.now() - begun).toBeLessThan(ANSWER_MS)
      expect(valueOf(found, 'txbox_outbox_backlog_messages')).toBe(2)
      return valueOf(found, 'txbox_metrics_stale') === 1
    },
    () => 'the metrics are stale',
    20_000,
  )
  expect(performance.now() - readAt).toBeGreaterThan(4900)
  gone.over()
  await until(
    async () => valueOf(await gc.scrape(), 'txbox_metrics_stale') === 0,
    () => 'the metrics are fresh again',
    20_000,
  )
  expect(valueOf(await gc.scrape(), 'txbox_outbox_backlog_messages')).toBe(3)
  const { stderr } = await gc.stop()
  expect(stderr).toContain('The metrics of the outbox cannot be read: ')
})

test('concurrent scrapes of a locked table send one query, are answered in time, and have what can be read', async () => {
  await backlog(2, 60)
  const gc = await startMetrics(GC, shop.url)
  await gc.scrape()
  const locking = await connected()
  await locking.query('begin')
  await locking.query('lock table txbox.outbox in access exclusive mode')
  const waiting = async (): Promise<number> => {
    const { rows } = await shop.sql(
      "select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    )
    return (rows[0] as { n: number }).n
  }
  await until(
    async () => {
      await gc.scrape()
      return (await waiting()) > 0
    },
    () => 'a scrape waits for the lock',
    20_000,
  )
  const begun = performance.now()
  const scrapes = await Promise.all(Array.from({ length: 20 }, async () => (await gc.get('/metrics')).text()))
  expect(performance.now() - begun).toBeLessThan(ANSWER_MS)
  expect(await waiting()).toBe(1)
  for (const found of scrapes.map(parseMetrics)) {
    expect(valueOf(found, 'txbox_metrics_stale')).toBe(1)
    expect(valueOf(found, 'txbox_outbox_backlog_messages')).toBe(2)
  }
  await locking.query('rollback')
  await until(
    async () => valueOf(await gc.scrape(), 'txbox_metrics_stale') === 0,
    () => 'the metrics are fresh again',
    20_000,
  )
  await gc.stop()
})

test('with the privileges of a relay alone, the figures of the outbox are fresh, and the log says what cannot be read', async () => {
  const role = `metrics_${process.pid}`
  await shop.sql(`create role ${role} login password 'x';
    grant usage on schema txbox to ${role};
    grant select on txbox.migrations to ${role};
    grant select, delete on txbox.outbox to ${role};
    grant select, insert, update, delete on txbox.parked, txbox.leases to ${role};
    grant select on sequence txbox.outbox_seq to ${role}`)
  onTestFinished(async () => void (await shop.sql(`drop owned by ${role}; drop role ${role}`)))
  const url = new URL(shop.url)
  url.username = role
  url.password = 'x'
  const relay = await startMetrics(RELAY, url.href)
  const found = await relay.scrape()
  expect(valueOf(found, 'txbox_oldest_due_age_seconds')).toBe(0)
  expect(valueOf(found, 'txbox_outbox_backlog_messages')).toBe(0)
  expect(valueOf(found, 'txbox_outbox_dead_letters')).toBeUndefined()
  expect(valueOf(found, 'txbox_metrics_stale')).toBe(1)
  const { stderr, code } = await relay.stop()
  expect(code).toBe(0)
  expect(stderr).toMatch(/The metrics of the stored queues cannot be read: .*permission denied/)
})

test('wrong usage is refused, and without --metrics there are none', async () => {
  expect(await shop.run(...RELAY, '--metrics')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--metrics requires --health-port'),
  })
  expect(await shop.run('gc', '--health-port', '0')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--health-port requires --interval-ms'),
  })
})
