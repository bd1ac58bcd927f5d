import { randomUUID } from 'node:crypto'
import type { Pool as PgPool } from 'pg'
import { beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { createConsumer, type Consumer } from '@txbox/consumer'
import { DatabaseUnavailableError, type TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { createQueue, queueSource } from '@txbox/queue'
import { Broker } from '../../support/worlds/broker.ts'
import { listen, type ConsumerUnderTest } from '../../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { poolOf as mysqlPoolOf } from '../../support/engines/mysql-pool.ts'
import { mysql2Root } from '../../support/engines/mysql-roots.ts'
import { poolOf as postgresPoolOf } from '../../support/engines/postgres-pool.ts'
import { pgRoot } from '../../support/engines/postgres-roots.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { databaseUrl } from '../../support/engines/server-outbox-target.ts'
import { mainKind, useRoot, useTarget, type Root } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
/** A root whose connections all accept writes. */
const primary = useRoot(target, mainKind(target))
const every = { attempts: 3, delayMs: () => 10 }

/** Whether the address leads to a server that accepts no writes. Connections that are open stay with their server. */
let leadsToStandby: boolean
let url: string

beforeAll(async () => {
  url = await databaseUrl(target)
})
beforeEach(() => {
  leadsToStandby = true
})

/** A root whose pool keeps its connections. A connection that was opened while `leadsToStandby` never accepts a write. */
function rootOfPool(): Root {
  if (target.engine === 'postgres') {
    const pool: PgPool = postgresPoolOf(url, { max: 4, idleTimeoutMillis: 0 })
    pool.on('connect', (client) => {
      if (leadsToStandby) void client.query('set default_transaction_read_only = on')
    })
    return pgRoot(pool, {})
  }
  const pool = mysqlPoolOf(url, { connectionLimit: 4 })
  pool.on('connection', (connection) => {
    if (leadsToStandby) connection.query('set session transaction read only')
  })
  return mysql2Root(pool, {}, 'promise')
}

function openRoot(): Root {
  const root = rootOfPool()
  onTestFinished(() => root.close())
  return root
}

async function started(consumer: Consumer): Promise<ConsumerUnderTest['events']> {
  const events: ConsumerUnderTest['events'] = []
  listen(consumer, events)
  onTestFinished(() => consumer.stop())
  await consumer.start()
  return events
}

/** The values of the events with this name. */
function emitted(events: ConsumerUnderTest['events'], name: string): readonly object[] {
  return events.filter(({ event }) => event === name).map(({ value }) => value)
}

async function untilEmitted(events: ConsumerUnderTest['events'], name: string, times = 1): Promise<void> {
  await until(
    async () => emitted(events, name).length >= times,
    () =>
      `${times} × ${name}: ${JSON.stringify(events.map(({ event, value }) => [event, String(Reflect.get(value, 'error'))]))}`,
  )
}

function expectReadOnly(error: unknown): void {
  expect(error).toBeInstanceOf(DatabaseUnavailableError)
  expect(String(error)).toMatch(/the database accepts no writes .*read-only.*primary/)
}

/** Waits for the outage of a consumer, then fails over, and waits until the consumer has handled its message. */
async function survivesFailover(events: ConsumerUnderTest['events']): Promise<void> {
  await untilEmitted(events, 'unavailable', 4)
  for (const event of emitted(events, 'unavailable')) expectReadOnly(Reflect.get(event, 'error'))
  leadsToStandby = false
  await untilEmitted(events, 'handled')
  expect(emitted(events, 'handled')).toMatchObject([{ deliveries: 1 }])
}

test('C24 an inbox whose server accepts no writes is an outage that says so, and ends with the failover, without a restart', async () => {
  const name = `consumer-${randomUUID()}`
  const source = new MemorySource()
  const root = openRoot()
  const consumer = createConsumer({
    source,
    inbox: createInbox<TransactionHandle>({ database: root.database, consumer: name }),
    retry: every,
    logger: false,
    handler: (tx, { id }) => target.effect(tx, `${name} ${id}`),
  })
  const events = await started(consumer)
  source.send('a')
  await survivesFailover(events)
  expect(await target.effects(`${name} a`)).toBe(1)
  expect(source.how('a')).toEqual(['accept'])
})

test('C24 a stored queue whose server accepts no writes is an outage that says so, and ends with the failover, without a restart', async () => {
  const name = `queue-${randomUUID()}`
  const sender = createQueue<TransactionHandle>({ database: primary.database, name })
  await primary.database.transact(
    async (tx) => void (await sender.send(tx as never, { id: 'a', payload: 1 })),
  )
  const root = openRoot()
  const queue = createQueue<TransactionHandle>({ database: root.database, name })
  const consumer = createConsumer({
    source: queueSource(queue),
    database: root.database,
    name,
    retry: every,
    logger: false,
    handler: (tx, { id }) => target.effect(tx, `${name} ${id}`),
  })
  const events = await started(consumer)
  await survivesFailover(events)
  expect(await target.effects(`${name} a`)).toBe(1)
})

test('O10 a relay whose server accepts no writes says so, and publishes after the failover, without a restart', async () => {
  const broker = new Broker()
  const root = openRoot()
  const subject = new RelayUnderTest(root, broker.publisher())
  const failure: unknown = await subject.relay.start().catch((error: unknown) => error)
  if (failure !== undefined) expectReadOnly(failure)
  await subject.hears('error', failure === undefined ? 3 : 0)
  for (const { error } of subject.heard('error')) expectReadOnly(error)
  leadsToStandby = false
  const ids = await publishAll(primary, messagesOf('k', 3))
  if (failure !== undefined) await subject.relay.start()
  await broker.received(3)
  expect(broker.ids('k')).toEqual(ids)
})

test('C11 a handler that writes in a READ ONLY transaction of its own has failed: the message becomes a dead letter', async () => {
  leadsToStandby = false
  const root = openRoot()
  const outbox = createOutbox({ database: root.database })
  const readOnly = target.engine === 'postgres' ? 'begin read only' : 'start transaction read only'
  /** Runs work in a READ ONLY transaction. */
  const inReadOnly = async (work: (tx: TransactionHandle) => Promise<unknown>): Promise<void> => {
    const own = await root.begin()
    try {
      // Ends the transaction that `begin` has opened.
      await own.exec('commit')
      await own.exec(readOnly)
      await work(own.tx)
    } finally {
      await own.rollback()
    }
  }
  const name = `consumer-${randomUUID()}`
  const source = new MemorySource()
  const consumer = createConsumer({
    source,
    inbox: createInbox<TransactionHandle>({ database: root.database, consumer: name }),
    retry: every,
    logger: false,
    handler: async (tx, { id }) => {
      if (id === 'sql') await inReadOnly((own) => target.effect(own, name))
      if (id === 'outbox') await inReadOnly((own) => outbox.publish(own as never, { topic: 't', payload: 1 }))
      await target.effect(tx, name)
    },
  })
  const events = await started(consumer)
  for (const id of ['sql', 'outbox', 'good']) source.send(id)
  await untilEmitted(events, 'dead-lettered', 2)
  await untilEmitted(events, 'handled')
  expect(emitted(events, 'unavailable')).toEqual([])
  for (const event of emitted(events, 'dead-lettered')) {
    expect(event).toMatchObject({ deliveries: 3 })
    expect(String(Reflect.get(event, 'error'))).toMatch(/read.only/i)
  }
  expect(await target.effects(name)).toBe(1)
})
