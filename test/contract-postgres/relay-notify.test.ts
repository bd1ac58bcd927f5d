import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import { createRelay, InvalidOptionError, type RelayOptions } from '@txbox/relay'
import { Kysely, PostgresDialect } from 'kysely'
import { Client, Pool } from 'pg'
import { Broker, Gate, acceptAll } from '../support/worlds/broker.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { RelayUnderTest } from '../support/subjects/relay-under-test.ts'
import { useTarget } from '../support/engines/target.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { until } from '../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
/** So rarely that no test waits for a poll. */
const RARELY = { pollIntervalMs: { min: 30_000, max: 30_000 } }
let pool: Pool

beforeAll(() => {
  pool = new Pool({ connectionString: outbox.url(), max: 6 })
  pool.on('error', () => undefined)
  pool.on('connect', (client) => void client.on('error', () => undefined))
})
afterAll(() => pool.end())

async function publish(
  options: { notify?: boolean; rollback?: boolean; count?: number } = {},
): Promise<void> {
  const { notify = true, rollback = false, count = 1 } = options
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    const messages = Array.from({ length: count }, (_, n) => ({ topic: 't', key: `k${n}`, payload: n }))
    await createOutbox({ database: postgres(), notify }).publish(client, messages)
    await client.query(rollback ? 'ROLLBACK' : 'COMMIT')
  } finally {
    client.release()
  }
}

/** The last check on the listening connection since an instant, because an earlier relay may still be stopping. */
const LISTENERS = `select count(*)::int as n from pg_stat_activity
  where datname = current_database() and backend_start >= ?::timestamptz
    and (query like 'listen "txbox%' or query like '%::text as listening')`

async function listeners(since = '-infinity'): Promise<number> {
  return Number((await outbox.sql(LISTENERS, [since]))[0]!['n'])
}

/** Whether the poller of a relay has polled since an instant, and has done nothing else since then. */
async function instant(): Promise<string> {
  const [now] = await outbox.sql('select clock_timestamp()::text as at')
  return String(now!['at'])
}

async function started(
  broker: Broker,
  options: Partial<RelayOptions> = {},
  publisher = broker.publisher(),
): Promise<RelayUnderTest> {
  const database = (options.database ?? postgres({ db: pool })) as never
  const since = await instant()
  const subject = await RelayUnderTest.started({ database }, publisher, {
    ...RARELY,
    // No lease expires and is taken again, because this would make the relay poll.
    leaseMs: 60_000,
    wakeup: 'notify',
    ...options,
  })
  await until(
    async () => (await listeners(since)) > 0,
    () => 'the relay listens',
  )
  await subject.hears('lease-acquired', 16)
  return subject
}

test('a commit wakes a relay long before its next poll', async () => {
  const broker = new Broker()
  await started(broker)
  for (let n = 1; n <= 3; n += 1) {
    await publish({ count: 2 })
    await broker.received(2 * n, 10_000)
  }
  await publish({ rollback: true })
  await publish()
  await broker.received(7)
  expect(broker.log.length).toBe(7)
})

test('a relay finds messages from before it listened, and connects again when the connection is cut', async () => {
  const broker = new Broker()
  const subject = await started(broker)
  await publish()
  await broker.received(1)
  // No notification arrives for this message, which is found when the relay listens again.
  await publish({ notify: false })
  await outbox.cutConnections()
  await broker.received(2)
  await publish()
  await broker.received(3)
  expect(subject.heard('error').length).toBeGreaterThan(0)
})

test('a listening connection whose other end is gone is detected and replaced', async () => {
  const network = await UnreliableNetwork.to(target.address())
  onTestFinished(() => network.down())
  const url = new URL(outbox.url())
  url.hostname = network.address.host
  url.port = String(network.address.port)
  const broker = new Broker()
  const database = postgres({ db: pool, listen: url.href, listenCheckIntervalMs: 300 })
  const subject = await started(broker, { database })
  await publish()
  await broker.received(1)
  network.abandon()
  await subject.hears('error')
  const since = await instant()
  // The silent connection would report nothing, and the next poll is only after half a minute.
  await publish()
  await broker.received(2, 10_000)
  await until(
    async () => (await listeners(since)) > 0,
    () => 'another connection listens',
  )
  await publish()
  await broker.received(3, 10_000)
})

test('N1 a connection that no longer listens, as behind a pooler in transaction mode, is reported and replaced', async () => {
  const clients: Client[] = []
  const listen = async (): Promise<Client> => {
    const client = new Client({ connectionString: outbox.url() })
    client.on('error', () => undefined)
    clients.push(client)
    await client.connect()
    return client
  }
  const broker = new Broker()
  const database = postgres({ db: pool, listen, listenCheckIntervalMs: 100 })
  const subject = await started(broker, { database })
  await clients[0]!.query('unlisten *')
  await subject.hears('error')
  expect(String(subject.heard('error')[0]?.error)).toContain("option 'listen'")
  await until(
    async () => clients.length > 1 && (await listeners()) > 0,
    () => 'another connection listens',
  )
  await publish()
  await broker.received(1, 10_000)
  expect(subject.heard('error').length).toBe(1)
})

test('a notification that arrives while its shard has a turn is not missed', async () => {
  const broker = new Broker()
  const publisher = broker.publisher()
  const gate = new Gate()
  publisher.respond = async () => {
    await gate.pass()
    publisher.respond = acceptAll
    throw new Error('the broker is away')
  }
  await started(broker, {}, publisher)
  await publish()
  await gate.reached()
  // The call continues. The shard is read again: other keys are published, and the next message of the same key waits.
  await publish({ count: 30 })
  await gate.reached(2)
  gate.open()
  await broker.received(31, 10_000)
})

test('many messages cause few wake-ups', async () => {
  const broker = new Broker()
  const subject = await started(broker)
  await Promise.all(Array.from({ length: 200 }, () => publish()))
  await broker.received(200)
  expect(subject.heard('error')).toEqual([])
  expect(broker.violations).toEqual([])
})

test('with Kysely, which hides its clients, listen is a connection string or a function that returns a client', async () => {
  const db = new Kysely<unknown>({
    dialect: new PostgresDialect({ pool: new Pool({ connectionString: outbox.url(), max: 5 }) }),
  })
  const connected = async (): Promise<Client> => {
    const client = new Client(outbox.url())
    await client.connect()
    return client
  }
  try {
    let received = 0
    for (const listen of [outbox.url(), connected]) {
      const broker = new Broker()
      const subject = await started(broker, { database: postgres({ db, listen }) })
      await publish()
      await broker.received(1)
      await subject.relay.stop()
      received += broker.log.length
    }
    expect(received).toBe(2)
    expect(() =>
      createRelay({ database: postgres({ db }), publisher: new Broker().publisher(), wakeup: 'notify' }),
    ).toThrow(InvalidOptionError)
  } finally {
    await db.destroy()
  }
})

test('stop ends the listening', async () => {
  const subject = await started(new Broker())
  await subject.relay.stop()
  await until(
    async () => (await listeners()) === 0,
    () => 'no connection listens any more',
  )
})

test('wrong options are refused', () => {
  expect(() => postgres({ db: pool, listen: 5 as never })).toThrow(InvalidOptionError)
  expect(() => postgres({ db: pool, listenCheckIntervalMs: 99 })).toThrow(InvalidOptionError)
  expect(() => createOutbox({ database: { ...postgres(), engine: 'mysql' }, notify: true })).toThrow(
    InvalidOptionError,
  )
})
