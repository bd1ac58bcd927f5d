import { randomUUID } from 'node:crypto'
import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { Admin } from '@platformatic/kafka'
import { createOutbox, type NewMessage } from '@txbox/outbox'
import { migrate as migrateMysql, mysql } from '@txbox/mysql'
import { migrate as migratePostgres, postgres } from '@txbox/postgres'
import { createPool } from 'mysql2/promise'
import { Pool } from 'pg'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { startChaosDatabase, type ChaosDatabase } from '../../chaos/servers/chaos-database.ts'
import { query } from '../chaos/sql-connection.ts'
import { until } from '../support/worlds/until.ts'
import { Connector, settingsOfPage } from './connector.ts'
import { Records, type ReceivedRecord } from './records.ts'

const engine = inject('engine')
const { kafka, 'debezium-program': program } = inject('servers') as { [name: string]: string }
const RUN = randomUUID().slice(0, 8)
const TOPICS = [`orders-${RUN}`, `invoices-${RUN}`]
const UNUSABLE = `a/b-${RUN}`
const UNDELIVERABLE = `txbox-undeliverable-${RUN}`
const KEYS = ['order-1', 'order-2', 'Straße/4 ✓', undefined]

type Publish = (messages: readonly NewMessage[], options?: { rollBack: boolean }) => Promise<void>

let folder: string
let database: ChaosDatabase
let connector: Connector
let publish: Publish
let endPool: () => Promise<void>
let records: Records

beforeAll(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-test-servers-'))
  database = await startChaosDatabase(engine, { folder, maxConnections: 20 })
  await createTopics()
  await (engine === 'postgres' ? openPostgres() : openMysql())
  connector = new Connector(program!, kafka!)
  await connector.start(settings())
  await until(isReading, () => 'The connector does not read the log.', 60_000)
  records = await Records.of(kafka!, [...TOPICS, UNDELIVERABLE])
})
afterAll(async () => {
  await records?.close()
  await connector?.remove()
  await endPool?.()
  await database.stop()
  await rm(folder, { recursive: true })
})

/** The consumer subscribes before the first record comes. */
async function createTopics(): Promise<void> {
  const admin = new Admin({ clientId: 'txbox-test', bootstrapBrokers: [kafka!] })
  await admin.createTopics({ topics: [...TOPICS, UNDELIVERABLE], partitions: 3, replicas: 1 })
  await admin.close()
}

async function openPostgres(): Promise<void> {
  const pool = new Pool({ connectionString: database.url, max: 5 })
  pool.on('error', () => undefined)
  await migratePostgres(pool)
  await query(database.directUrl(), "create role debezium login replication password 'secret'")
  await query(
    database.directUrl(),
    "create publication txbox_outbox for table txbox.outbox with (publish = 'insert')",
  )
  const outbox = createOutbox({ database: postgres() })
  endPool = () => pool.end()
  publish = async (messages, { rollBack } = { rollBack: false }) => {
    const client = await pool.connect()
    await client.query('begin')
    await outbox.publish(client, messages)
    await client.query(rollBack ? 'rollback' : 'commit')
    client.release()
  }
}

async function openMysql(): Promise<void> {
  const pool = createPool({ uri: database.url, connectionLimit: 5 })
  await migrateMysql(pool)
  await query(database.directUrl(), "create user debezium identified by 'secret'")
  await query(
    database.directUrl(),
    'grant select, reload, show databases, replication slave, replication client on *.* to debezium',
  )
  const outbox = createOutbox({ database: mysql() })
  endPool = () => pool.end()
  publish = async (messages, { rollBack } = { rollBack: false }) => {
    const connection = await pool.getConnection()
    await connection.query('start transaction')
    await outbox.publish(connection, messages)
    await connection.query(rollBack ? 'rollback' : 'commit')
    connection.release()
  }
}

/** The settings of the page, with the addresses of this run. A test's Kafka has one broker. */
function settings(): Map<string, string> {
  const found = new Map(settingsOfPage(CONNECTOR_CLASS[engine]))
  const { hostname, port } = new URL(database.directUrl())
  const own: Readonly<Record<string, string>> = {
    'database.hostname': hostname,
    'database.port': engine === 'mysql' || engine === 'mariadb' ? portOfClients() : port,
    'database.dbname': 'chaos',
    'database.include.list': 'chaos',
    'table.include.list': engine === 'postgres' ? 'txbox.outbox' : 'chaos.txbox_outbox',
    'topic.prefix': `txbox_${RUN}`,
    'topic.creation.default.replication.factor': '1',
    'schema.history.internal.kafka.bootstrap.servers': kafka!,
    'schema.history.internal.kafka.topic': `txbox-schema-history-${RUN}`,
    'transforms.undeliverable.replacement': UNDELIVERABLE,
  }
  for (const [name, value] of Object.entries(own)) if (found.has(name)) found.set(name, value)
  return found
}

const CONNECTOR_CLASS = {
  postgres: 'postgresql.PostgresConnector',
  mysql: 'mysql.MySqlConnector',
  mariadb: 'mariadb.MariaDbConnector',
} as const

/** The administrators' port of MySQL serves no replica: the connector takes the address of the clients. */
function portOfClients(): string {
  return new URL(database.url).port
}

async function isReading(): Promise<boolean> {
  if (engine === 'postgres') {
    const slots = await query(
      database.directUrl(),
      "select 1 from pg_replication_slots where slot_name = 'txbox_outbox' and active",
    )
    return slots.length === 1
  }
  const processes = await query(database.directUrl(), 'show full processlist')
  const isConnected = processes.some(({ Command }) => String(Command).startsWith('Binlog Dump'))
  return isConnected && (await connector.hasOffset())
}

/** A message without a `type`, `correlationId` or headers is among them, and each kind of payload. */
function message(n: number): NewMessage {
  const key = KEYS[n % KEYS.length]
  const payload = [{ n }, new Uint8Array(256).map((_, at) => at), `text ${n} ü`, new Uint8Array()][n % 5] ?? {
    n,
    big: '9007199254740993',
  }
  return {
    topic: TOPICS[n % 3 === 0 ? 1 : 0]!,
    payload,
    ...(key === undefined ? {} : { key }),
    ...(typeof payload === 'string' ? { contentType: 'text/plain' } : {}),
    ...(n % 2 === 0
      ? { type: 'order.placed', correlationId: `c-${n}`, headers: { n: String(n), 'x-ü': '✓' } }
      : {}),
    id: `${RUN}-${n}`,
  }
}

function expectedOf({ payload, contentType, headers = {}, ...rest }: NewMessage): object {
  const isBytes = payload instanceof Uint8Array
  const value = isBytes
    ? Buffer.from(payload)
    : Buffer.from(contentType === undefined ? JSON.stringify(payload) : String(payload))
  return {
    topic: rest.topic,
    key: rest.key ?? null,
    value: value.toString('base64'),
    id: rest.id,
    headerKey: rest.key ?? null,
    originalTopic: rest.topic,
    type: rest.type ?? null,
    contentType: contentType ?? (isBytes ? 'application/octet-stream' : 'application/json'),
    correlationId: rest.correlationId ?? null,
    headers,
  }
}

function readRecord({ topic, key, value, headers }: ReceivedRecord): object {
  return {
    topic,
    key: key?.toString('utf8') ?? null,
    value: value?.toString('base64'),
    id: headers['txbox-id'],
    headerKey: headers['txbox-key'],
    originalTopic: headers['txbox-topic'],
    type: headers['txbox-type'],
    contentType: headers['content-type'],
    correlationId: headers['txbox-correlation-id'],
    headers: JSON.parse(headers['headers'] ?? '{}') as object,
  }
}

function hasReceived(count: number): () => Promise<boolean> {
  return async () => records.firstArrivals.length >= count
}

function describe(): string {
  return `${records.received.length} records, ${records.firstArrivals.length} messages`
}

async function deleteRows(): Promise<void> {
  if (engine === 'postgres') await query(database.directUrl(), 'delete from txbox.outbox')
  else await query(database.directUrl(), 'delete from txbox_outbox')
}

test('Debezium with the settings of the page publishes every committed message once or more, unchanged, across kills of Connect', async () => {
  const published: NewMessage[] = []
  const publishNext = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n += 4) {
      const messages = Array.from({ length: 4 }, (_, at) => message(published.length + at))
      if (n % 16 === 0)
        await publish(
          messages.map((each) => ({ ...each, id: `${each.id}-rolled-back` })),
          { rollBack: true },
        )
      await publish(messages)
      published.push(...messages)
    }
  }
  await publishNext(80)
  await until(hasReceived(1), describe, 60_000)
  const killed = connector.kill()
  await publishNext(80)
  await killed
  await publishNext(80)
  // The rows are in the log: nobody needs them in the table.
  await deleteRows()
  await connector.start(settings())
  await publishNext(80)
  const unusable = { ...message(1000), topic: UNUSABLE }
  await publish([unusable])
  await publishNext(4)
  await until(hasReceived(published.length + 1), describe, 120_000)

  const arrivals = records.firstArrivals
  const byId = (each: { id?: unknown }): string => String(each.id)
  const sorted = (all: readonly object[]): object[] => all.toSorted((a, b) => (byId(a) < byId(b) ? -1 : 1))
  const expected = published.map((each) => expectedOf(each))
  const lost = { ...expectedOf(unusable), topic: UNDELIVERABLE }
  expect(sorted(arrivals.map((each) => readRecord(each)))).toEqual(sorted([...expected, lost]))
  for (const key of KEYS.filter((each) => each !== undefined)) {
    for (const topic of TOPICS) {
      const ids = (all: readonly object[]): unknown[] => all.map((each) => Reflect.get(each, 'id') as unknown)
      const ofKey = arrivals
        .map((each) => readRecord(each))
        .filter((each) => Reflect.get(each, 'key') === key && Reflect.get(each, 'topic') === topic)
      const wanted = published.filter((each) => each.key === key && each.topic === topic)
      expect(ids(ofKey)).toEqual(ids(wanted))
    }
  }
  for (const { headers } of arrivals) {
    const ageMs = Date.now() - Date.parse(headers['txbox-time']!)
    expect(ageMs).toBeGreaterThanOrEqual(-1000)
    expect(ageMs).toBeLessThan(600_000)
  }
})
