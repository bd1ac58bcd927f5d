import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { Pool as PostgresPool } from 'pg'
import type { RowDataPacket } from 'mysql2'
import { beforeEach, expect, inject, test } from 'vitest'
import { portsKey, type ConnectedDatabase, type NewMessage, type TransactionHandle } from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import { migrate as migrateMysql, mysql } from '@txbox/mysql'
import { createOutbox } from '@txbox/outbox'
import { migrate as migratePostgres, postgres } from '@txbox/postgres'
import { startChaosDatabase, type ChaosDatabase } from '../../chaos/servers/chaos-database.ts'
import { Broker, Gate, acceptAll } from '../support/worlds/broker.ts'
import { keysOfOneShard } from '../support/subjects/keys.ts'
import { poolOf } from '../support/engines/mysql-pool.ts'
import { RelayUnderTest, messagesOf } from '../support/subjects/relay-under-test.ts'
import { until } from '../support/worlds/until.ts'
import { SqlConnection, query } from './sql-connection.ts'

const engine = inject('engine')
/** So long that the old lease is still valid on the new primary. */
const LEASE_MS = 20_000
const PREFIX = engine === 'postgres' ? 'txbox.' : 'txbox_'
/** More connections than a server has had shortly after its start. */
const CONNECTION = 300

let folder: string
let server: ChaosDatabase
let database: ConnectedDatabase<TransactionHandle>
let end: () => Promise<void>

beforeEach(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-test-servers-'))
  end = () => Promise.resolve()
  server = await startChaosDatabase(engine, { folder, maxConnections: 50 })
  return async () => {
    await end()
    await server.stop()
    await rm(folder, { recursive: true })
  }
})

async function open(): Promise<void> {
  if (engine === 'postgres') {
    const pool = new PostgresPool({ connectionString: server.url, max: 8 })
    pool.on('error', () => undefined)
    end = () => pool.end()
    await migratePostgres(pool)
    database = postgres({ db: pool }) as never
  } else {
    const pool = poolOf(server.url, { connectionLimit: 8 }).promise()
    end = () => pool.end()
    await migrateMysql(pool)
    database = mysql({ db: pool }) as never
  }
}

/** @returns their ids */
async function publish(messages: readonly NewMessage[]): Promise<string[]> {
  const outbox = createOutbox({ database })
  const published = await database.transact((tx) => outbox.publish(tx, messages))
  return published.map(({ id }) => id)
}

async function left(): Promise<number> {
  const [row] = await query(
    server.directUrl(),
    `select (select count(*) from ${PREFIX}outbox) + (select count(*) from ${PREFIX}parked) as n`,
  )
  return Number(row!['n'])
}

/** MySQL numbers connections from 1 at each start: lets the number of the next one be so great. */
async function connectUpTo(number: number): Promise<void> {
  for (let last = 0; last < number - 1;) {
    const connection = await SqlConnection.to(server.directUrl())
    const [row] = await connection.query('select connection_id() as id')
    connection.end()
    last = Number(row!['id'])
    expect(last).toBeLessThan(number)
  }
}

/** A relay that remembers where it has to begin to read, and a failover while one of its calls is in flight. */
async function failOverInACall(ordering: 'none' | 'per-key', onNewPrimary?: () => Promise<void>) {
  const broker = new Broker()
  const publisher = broker.publisher({ ordering })
  const subject = await RelayUnderTest.started({ database }, publisher, {
    leaseMs: LEASE_MS,
    batchSize: 200,
  })
  for (let round = 0; round < 10; round++) await publish(messagesOf(undefined, 4000))
  await broker.received(40_000, 60_000)
  await until(
    async () => (await left()) === 0,
    () => 'the outbox is empty',
  )

  await server.holdReplication()
  const gate = new Gate()
  publisher.respond = async (call) => {
    await gate.pass()
    return call.acceptAll()
  }
  // All in one shard: code that identifies messages by their number alone would confuse messages with the same number.
  const keys = keysOfOneShard(20)
  const lost = await publish(keys.flatMap((key) => messagesOf(key, 20)))
  await gate.reached()
  server.proxy.refuse(true)
  await server.failOver()
  await onNewPrimary?.()
  server.proxy.refuse(false)
  await until(
    () =>
      query(server.url, 'select 1').then(
        () => true,
        () => false,
      ),
    () => 'the new primary is reached',
  )

  // The numbers of the messages in flight are assigned again, to messages of the same keys.
  const now = keys.flatMap((key) => messagesOf(key, 40, 1001))
  const ids = await publish(now)
  const startedAt = performance.now()
  const draining = subject.relay.drain()
  gate.open()
  publisher.respond = acceptAll
  await draining
  const tookMs = performance.now() - startedAt
  const published = new Set(broker.ids())
  expect(lost).toHaveLength(400)
  expect(ids.filter((id) => !published.has(id))).toEqual([])
  expect(await left()).toBe(0)
  for (const key of keys) {
    const idsOfKey = ids.filter((_, n) => now[n]!.key === key)
    expect(broker.firstIds(key).filter((id) => idsOfKey.includes(id))).toEqual(idsOfKey)
  }
  expect(broker.violations).toEqual([])
  expect(subject.heard('dead-lettered')).toEqual([])
  expect(tookMs).toBeLessThan(LEASE_MS)
}

test.each(['none', 'per-key'] as const)(
  'O14 after a failover to a standby that is behind, in the middle of a call (%s), newly committed messages are published in order',
  async (ordering) => {
    await open()
    await failOverInACall(ordering)
  },
)

// PostgreSQL numbers no connections.
if (engine !== 'postgres') {
  test('O14 after a failover to a server with the same connection numbers as the former one, nothing is lost or out of order', async () => {
    await connectUpTo(CONNECTION)
    await open()
    await failOverInACall('none', () => connectUpTo(CONNECTION))
  })

  test('O14 another server is recognized by its name, although the number of the connection is the same as before', async () => {
    await connectUpTo(CONNECTION)
    const pool = poolOf(server.url, { connectionLimit: 1 }).promise()
    end = () => pool.end()
    await migrateMysql(pool)
    const connected = mysql({ db: pool }) as unknown as Record<symbol, ConnectedPorts>
    const relay = connected[portsKey]!.relay({ statementTimeoutMs: 5000 })
    const connection = async () => {
      const [rows] = await pool.query<RowDataPacket[]>('select connection_id() as id')
      return Number(rows[0]!['id'])
    }
    const before = await connection()
    await relay.work([1])
    await relay.work([1])
    expect(relay.generation).toBe(0)

    await server.holdReplication()
    server.proxy.refuse(true)
    await server.failOver()
    await connectUpTo(before)
    server.proxy.refuse(false)
    await until(
      () =>
        relay.work([1]).then(
          () => true,
          () => false,
        ),
      () => 'the new primary is reached',
    )
    expect(await connection()).toBe(before)
    expect(relay.generation).toBe(1)
  })
}
