import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer, createLocalConsumer, type Consumer, type LocalConsumer } from '@txbox/consumer'
import { BrokerUnavailableError, portsKey } from '@txbox/core'
import { connectedPortsOf } from '@txbox/core/internal'
import type { ConnectedPorts } from '@txbox/core/ports'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { queueSource } from '@txbox/queue'
import { LeasedGauges } from '../../../packages/core/src/gauges/leased-gauges.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget, type Root } from '../../support/engines/target.ts'
import { GaugesUnderTest } from '../../support/subjects/gauges-under-test.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { usePrivilegedUsers } from '../../support/subjects/privileged-users.ts'
import { QueueUnderTest } from '../../support/subjects/queue-under-test.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { Broker, Gate } from '../../support/worlds/broker.ts'
import { until } from '../../support/worlds/until.ts'
import { warningsOf } from '../../support/worlds/warnings.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const users = usePrivilegedUsers(target, outbox)
const root = useRoot(target, mainKind(target), { max: 20 })
/** The smallest pool that a relay may have. */
const small = useRoot(target, mainKind(target), { max: 2 })
const BACKLOG = 'txbox.outbox.backlog.messages'
const AGE = 'txbox.oldest_due.age'
const PARKED = 'txbox.outbox.parked.messages'

type Gauge = Parameters<GaugesUnderTest['value']>[0]

async function has(
  telemetry: GaugesUnderTest,
  metric: Gauge,
  attributes: object,
  value: number | undefined,
): Promise<void> {
  await until(
    async () => (await telemetry.value(metric, attributes)) === value,
    async () => `${metric} ${value}; there is ${JSON.stringify(await telemetry.all(metric))}`,
  )
}

async function owners(): Promise<readonly string[]> {
  const store = connectedPortsOf('test', root.database).leases()
  try {
    return (await store.holders('metrics')).map(({ owner }) => owner)
  } finally {
    await store.close()
  }
}

/** Ends with the test. */
async function started<C extends Consumer | LocalConsumer>(consumer: C): Promise<C> {
  onTestFinished(() => consumer.stop({ timeoutMs: 500 }))
  await consumer.start()
  return consumer
}

/** The gauges of the tables in a process of its own, which tries for the lease often. */
function processOf({ database }: Pick<Root, 'database'>, leaseMs: number) {
  const telemetry = new GaugesUnderTest()
  const gauges = new LeasedGauges(database[portsKey] as never, { everyMs: 20, leaseMs })
  const end = gauges.observe(telemetry)
  const stop = async (): Promise<void> => {
    end()
    await gauges.idle
  }
  onTestFinished(stop)
  return { telemetry, stop }
}

test('a relay reports its shards, its publisher and the tables to a telemetry that is registered later, until it stops', async () => {
  const broker = new Broker()
  let isAway = false
  const publisher = broker.publisher({
    respond(call) {
      if (isAway) throw new BrokerUnavailableError('away')
      return call.acceptAll()
    },
  })
  const { relay } = await RelayUnderTest.started(root, publisher, { logger: false })
  const telemetry = new GaugesUnderTest().register()
  await has(telemetry, 'txbox.relay.shards', {}, 16)
  await has(telemetry, 'txbox.relay.publisher.up', {}, 1)
  await has(telemetry, BACKLOG, {}, 0)
  await has(telemetry, 'txbox.outbox.dead_letters', {}, 0)
  expect(await owners()).toHaveLength(1)
  isAway = true
  await publishAll(root, messagesOf('a', 1))
  await has(telemetry, 'txbox.relay.publisher.up', {}, 0)
  isAway = false
  await has(telemetry, 'txbox.relay.publisher.up', {}, 1)
  await relay.stop()
  expect(telemetry.size).toBe(0)
  expect(await owners()).toEqual([])
  await outbox.settled()
})

test('of several processes one tells the tables, and another one follows the holder that has stopped or died', async () => {
  const other = target.open(mainKind(target))
  onTestFinished(() => other.close())
  await publishAll(root, messagesOf('a', 3))
  const one = processOf(root, 1500)
  await has(one.telemetry, BACKLOG, {}, 3)
  expect(await one.telemetry.value(AGE)).toBeGreaterThanOrEqual(0)
  const two = processOf(other, 1500)
  for (let n = 0; n < 20; n++) {
    const told = [await one.telemetry.value(BACKLOG), await two.telemetry.value(BACKLOG)]
    expect(told).toEqual([3, undefined])
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  await one.stop()
  await has(two.telemetry, BACKLOG, {}, 3)
  expect(await owners()).toHaveLength(1)
  await two.stop()
  // A holder that was killed releases nothing: its lease has to expire.
  const store = connectedPortsOf('test', other.database).leases()
  await store.acquire(['metrics'], { owner: 'killed', ttlMs: 300, limit: 1 })
  const three = processOf(root, 1500)
  expect(await three.telemetry.value(BACKLOG)).toBeUndefined()
  await has(three.telemetry, BACKLOG, {}, 3)
  await store.close()
  await outbox.clear()
})

test('the lease of a process that has died without a successor is no lease of a relay that nobody replaces', async () => {
  const ports = connectedPortsOf('test', root.database)
  const store = ports.leases()
  await store.acquire(['metrics'], { owner: 'dead', ttlMs: 60_000, limit: 1 })
  const names = async (): Promise<readonly string[]> =>
    (await ports.inspection().status()).leases.map(({ name }) => name)
  expect(await names()).toEqual(['metrics'])
  await outbox.expireLeases()
  expect(await names()).toEqual([])
  await store.close()
})

test('a local consumer and a queue tell the tables and their messages in flight, with the telemetry that they were given', async () => {
  const [local, received] = [new GaugesUnderTest(), new GaugesUnderTest()]
  const name = `local-${randomUUID()}`
  const gate = new Gate()
  onTestFinished(() => gate.open())
  const handler = async (): Promise<void> => gate.pass()
  const consumer = await started(
    createLocalConsumer({
      database: root.database,
      consumer: name,
      handlers: { t: handler },
      telemetry: local,
    }),
  )
  const transaction = await root.begin()
  const publishing = createOutbox({ database: root.database, subscriptions: { t: [name] } })
  await publishing.publish(transaction.tx, { type: 't', payload: 1 })
  await transaction.commit()
  await has(local, 'txbox.consumer.in_flight.messages', { consumer: name }, 1)
  await has(local, BACKLOG, { consumer: name }, 1)
  expect(await local.value(AGE, { consumer: name })).toBeGreaterThanOrEqual(0)

  // Of another process, without an inbox: the queue itself knows the database.
  await consumer.stop({ timeoutMs: 100 })
  const queue = new QueueUnderTest(target, root, { telemetry: received })
  await queue.send({ id: 'q1' }, { id: 'q2' }, { id: 'q3' })
  const receiving = await started(
    createConsumer({
      source: queueSource(queue.queue),
      name: 'plain',
      handler,
      prefetch: 2,
      concurrency: 1,
      telemetry: received,
    }),
  )
  await has(received, 'txbox.consumer.in_flight.messages', { consumer: 'plain' }, 2)
  await has(received, 'txbox.queue.messages', { queue: queue.queue.name, state: 'in_flight' }, 2)
  expect(await received.value(AGE, { queue: queue.queue.name })).toBeGreaterThanOrEqual(0)
  gate.open()
  await receiving.stop()
  expect([local.size, received.size]).toEqual([0, 0])
  expect(await owners()).toEqual([])
})

test('a consumer with an inbox tells the tables of its database', async () => {
  const telemetry = new GaugesUnderTest()
  const name = `inbox-${randomUUID()}`
  const consumer = await started(
    createConsumer({
      source: new MemorySource(),
      inbox: createInbox({ database: root.database, consumer: name }),
      handler: () => undefined,
      telemetry,
    }),
  )
  await has(telemetry, 'txbox.consumer.in_flight.messages', { consumer: name }, 0)
  await has(telemetry, BACKLOG, {}, 0)
  await consumer.stop()
  expect(telemetry.size).toBe(0)
})

test('a relay with its own privileges alone reports the outbox; what it may not read is reported once, and it publishes', async () => {
  const warnings = warningsOf('TXBOX_METRICS')
  const telemetry = new GaugesUnderTest()
  const broker = new Broker()
  const database = users.as('relay')
  const { relay } = await RelayUnderTest.started({ database }, broker.publisher(), { telemetry })
  await has(telemetry, BACKLOG, {}, 0)
  await until(
    async () => warnings.length > 0,
    () => 'a warning',
  )
  await publishAll(root, messagesOf('a', 2))
  await broker.received(2)
  await outbox.settled()
  expect(await telemetry.all('txbox.queue.messages')).toEqual([])
  expect(await telemetry.all(PARKED)).toEqual([])
  expect(warnings).toEqual([
    expect.stringMatching(/the stored queues.* cannot be read \(.*denied.*txbox_viewer/i),
  ])
  await relay.stop()
})

test('a consumer that may not read the outbox, or have the lease, handles its messages, and is reported once', async () => {
  const warnings = warningsOf('TXBOX_METRICS')
  const telemetry = new GaugesUnderTest()
  const source = new MemorySource()
  await started(
    createConsumer({
      source,
      inbox: createInbox({ database: users.as('app'), consumer: `app-${randomUUID()}` }),
      handler: () => undefined,
      telemetry,
      logger: false,
    } as never),
  )
  await telemetry.value(BACKLOG)
  await until(
    async () => warnings.length > 0,
    () => 'a warning',
  )
  source.send('m1')
  await until(
    async () => source.settled.length === 1,
    () => 'a settled message',
  )
  await until(
    async () => (await owners()).length === 0,
    () => 'a free lease',
  )
  for (const metric of [BACKLOG, 'txbox.queue.messages'] as const)
    expect(await telemetry.all(metric)).toEqual([])
  expect(warnings).toEqual([
    expect.stringMatching(/(lease 'metrics'|of the outbox cannot be read) \(.*denied/i),
  ])
})

test('a relay with the smallest pool publishes while gauges are read', async () => {
  const telemetry = new GaugesUnderTest()
  const broker = new Broker()
  const { relay } = await RelayUnderTest.started(small, broker.publisher(), { telemetry, logger: false })
  await telemetry.value(BACKLOG)
  await has(telemetry, 'txbox.outbox.dead_letters', {}, 0)
  await publishAll(root, messagesOf('a', 2))
  await broker.received(2)
  await outbox.settled()
  await relay.stop()
  expect(await owners()).toEqual([])
})

test('readings that never answer neither disturb a relay nor its stop', async () => {
  const ports = root.database[portsKey]
  const never = (): Promise<never> => new Promise(() => undefined)
  const inspection = new Proxy(ports.inspection(), { get: () => never })
  const hanging = Object.assign(Object.create(ports) as ConnectedPorts, { inspection: () => inspection })
  const database = { engine: root.database.engine, [portsKey]: hanging } as never
  const telemetry = new GaugesUnderTest()
  const broker = new Broker()
  const { relay } = await RelayUnderTest.started({ database }, broker.publisher(), { telemetry })
  await telemetry.value(BACKLOG)
  await until(
    async () => (await owners()).length === 1,
    () => 'a lease',
  )
  await publishAll(root, messagesOf('a', 2))
  await broker.received(2)
  await outbox.settled()
  expect(await telemetry.all(BACKLOG)).toEqual([])
  const begunAt = performance.now()
  await relay.stop({ timeoutMs: 5000 })
  expect(performance.now() - begunAt).toBeLessThan(4000)
  expect(await owners()).toEqual([])
})
