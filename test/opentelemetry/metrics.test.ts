import { randomUUID } from 'node:crypto'
import { metrics } from '@opentelemetry/api'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import { PermanentError } from '@txbox/core'
import { createGarbageCollector } from '@txbox/gc'
import { createInbox } from '@txbox/inbox'
import { openTelemetry } from '@txbox/opentelemetry'
import { createOutbox } from '@txbox/outbox'
import { queueSource } from '@txbox/queue'
import { QueueUnderTest } from '../support/subjects/queue-under-test.ts'
import { messagesOf, RelayUnderTest } from '../support/subjects/relay-under-test.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { Broker, rejected } from '../support/worlds/broker.ts'
import { until } from '../support/worlds/until.ts'
import { MetricsUnderTest, useMetrics } from './metrics-under-test.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target), { max: 20 })
// Made before the SDK starts.
const telemetry = openTelemetry()
let reads = 0
const early = telemetry.observe('txbox.oldest_due.age', async () => {
  reads++
  return [{ value: 7, attributes: { queue: 'a' } }]
})
const sdk = useMetrics()
const metric = (name: string) => sdk.metric(name)
const valueOf = (name: string, attributes?: object): Promise<number> => sdk.valueOf(name, attributes)

test('a relay counts its results, its calls and their durations', async () => {
  const transaction = await root.begin()
  await createOutbox({ database: root.database, telemetry }).publish(transaction.tx, [
    ...messagesOf('a', 1),
    ...messagesOf('b', 1),
    ...messagesOf('c', 1),
  ])
  await transaction.commit()
  const broker = new Broker()
  const first = new Map<string, number>()
  const publisher = broker.publisher({
    respond: (call) =>
      call.messages.map((message) => {
        const tried = first.get(message.key!) ?? 0
        first.set(message.key!, tried + 1)
        if (message.key === 'a') return rejected({ retryable: false, error: new PermanentError('never') })
        if (message.key === 'b' && tried === 0) return rejected()
        return message.key === 'c' && tried === 0
          ? { ...rejected({ retryAfterMs: 1 }), counted: false }
          : call.accept(message)
      }),
  })
  await RelayUnderTest.started(root, publisher, {
    telemetry,
    logger: false,
    retry: { attempts: 5, delayMs: () => 1 },
  })
  await broker.received(2)
  await outbox.settled()
  await until(
    async () => (await valueOf('txbox.relay.messages', { outcome: 'accepted' })) === 2,
    () => 'two accepted messages',
  )
  expect(await valueOf('txbox.relay.messages', { outcome: 'dead_lettered' })).toBe(1)
  expect(await valueOf('txbox.relay.messages', { outcome: 'rejected' })).toBe(1)
  expect(await valueOf('txbox.relay.messages', { outcome: 'uncounted' })).toBe(1)
  expect(await valueOf('txbox.relay.latency')).toBe(2)
  const sent = { 'messaging.operation.name': 'send' }
  expect(await valueOf('messaging.client.sent.messages', sent)).toBe(5)
  expect(await valueOf('messaging.client.sent.messages', { ...sent, 'error.type': 'TXBOX_PERMANENT' })).toBe(
    1,
  )
  expect(await valueOf('messaging.client.operation.duration', { 'error.type': 'TXBOX_PERMANENT' })).toBe(1)
  const duration = await metric('messaging.client.operation.duration')
  expect(duration!.descriptor.unit).toBe('s')
  expect(Reflect.get(duration!.dataPoints[0]!.value as object, 'buckets')).toMatchObject({
    boundaries: expect.arrayContaining([0.005, 10]),
  })
})

test('a consumer counts deliveries, retries and dead letters, and an inbox its outcomes', async () => {
  const queue = new QueueUnderTest(target, root, { telemetry })
  const name = `consumer-${randomUUID()}`
  await queue.send({ id: `${name} good` }, { id: `${name} bad` })
  const failures = new Map<string, number>()
  const consumer = createConsumer({
    source: queueSource(queue.queue),
    inbox: createInbox({ database: root.database, consumer: name, telemetry }),
    handler: (_, { id }) => {
      const failed = failures.get(id) ?? 0
      failures.set(id, failed + 1)
      if (id.endsWith('bad') && failed > 0) throw new PermanentError('never')
      if (failed === 0) throw new Error('the first attempt')
    },
    retry: { attempts: 5, delayMs: () => 1 },
    telemetry,
    logger: false,
  })
  onTestFinished(() => consumer.stop())
  await consumer.start()
  const about = { consumer: name }
  await until(
    async () => (await valueOf('txbox.consumer.deliveries', about)) === 4,
    () => 'four deliveries',
  )
  expect(await valueOf('txbox.consumer.retries', about)).toBe(2)
  await until(
    async () => (await valueOf('txbox.consumer.dead_letters', about)) === 1,
    () => 'a dead letter',
  )
  expect(await valueOf('txbox.inbox.messages', { ...about, outcome: 'processed' })).toBe(1)
  const group = { 'messaging.consumer.group.name': name }
  expect(await valueOf('messaging.client.consumed.messages', group)).toBe(4)
  expect(await valueOf('messaging.process.duration', { ...group, 'error.type': 'TXBOX_PERMANENT' })).toBe(1)
  // The destination would be a time series for each topic.
  const consumed = await metric('messaging.client.consumed.messages')
  for (const { attributes } of consumed!.dataPoints)
    expect(attributes).not.toHaveProperty('messaging.destination.name')
})

test('a collector records its runs', async () => {
  const collector = createGarbageCollector({ database: root.database, telemetry })
  await collector.runOnce()
  await collector.runOnce()
  expect(await valueOf('txbox.gc.duration')).toBe(2)
})

test('with destinationAttribute metrics have the destination', async () => {
  const own = openTelemetry({ destinationAttribute: true })
  const attributes = { 'messaging.destination.name': 'orders' }
  own.count('messaging.client.sent.messages', 3, attributes)
  expect(await valueOf('messaging.client.sent.messages', attributes)).toBe(3)
})

test('with destinationAttribute the metrics of a relay have the topics of the messages, also of one call', async () => {
  const own = openTelemetry({ destinationAttribute: true })
  const topics = [`first-${randomUUID()}`, `second-${randomUUID()}`]
  const transaction = await root.begin()
  await createOutbox({ database: root.database }).publish(
    transaction.tx,
    [0, 1, 1].map((index) => ({ topic: topics[index]!, key: 'one shard', payload: {} })),
  )
  await transaction.commit()
  const broker = new Broker()
  const publisher = broker.publisher({ ordering: 'per-key' })
  await RelayUnderTest.started(root, publisher, { telemetry: own, logger: false })
  await broker.received(3)
  await outbox.settled()
  const sentTo = (topic: string) =>
    valueOf('messaging.client.sent.messages', { 'messaging.destination.name': topic })
  expect([await sentTo(topics[0]!), await sentTo(topics[1]!)]).toEqual([1, 2])
})

test('a gauge is read at each export, also one from before the SDK, until it is ended', async () => {
  telemetry.count('txbox.relay.leases.lost', 1, {})
  expect(await valueOf('txbox.oldest_due.age', { queue: 'a' })).toBe(7)
  const end = telemetry.observe('txbox.oldest_due.age', async () => [
    { value: 9, attributes: { queue: 'b' } },
  ])
  expect(await valueOf('txbox.oldest_due.age', { queue: 'b' })).toBe(9)
  expect((await metric('txbox.oldest_due.age'))!.descriptor.unit).toBe('s')
  expect((await metric('txbox.oldest_due.age'))!.descriptor.description).toMatch(/^How long the message/)
  end()
  early()
  const before = reads
  expect(before).toBeGreaterThan(0)
  await sdk.provider.forceFlush()
  expect(reads).toBe(before)
})

/** An SDK that starts when the test says so; until then there is none. */
function useLaterSdk(): MetricsUnderTest {
  const later = new MetricsUnderTest()
  metrics.disable()
  onTestFinished(async () => {
    metrics.disable()
    metrics.setGlobalMeterProvider(sdk.provider)
    await later.provider.shutdown()
  })
  return later
}

test('a metric of another version of txbox is refused, and disturbs no other one, also when an SDK starts later', async () => {
  const later = useLaterSdk()
  const idle = openTelemetry()
  const unknown = 'txbox.of.a.later.release' as never
  expect(() => idle.observe(unknown, async () => [])).toThrow(/is no gauge of this version/)
  expect(() => idle.count(unknown, 1, {})).toThrow(/is no counter of this version/)
  expect(() => idle.record(unknown, 1, {})).toThrow(/is no histogram of this version/)
  onTestFinished(idle.observe('txbox.oldest_due.age', async () => [{ value: 4, attributes: {} }]))
  metrics.setGlobalMeterProvider(later.provider)
  await until(
    async () => (await later.valueOf('txbox.oldest_due.age')) === 4,
    () => 'the gauge',
  )
})

test('a gauge of an idle process gets an SDK that starts later, without a count or a duration', async () => {
  const later = useLaterSdk()
  const idle = openTelemetry()
  onTestFinished(idle.observe('txbox.oldest_due.age', async () => [{ value: 3, attributes: {} }]))
  metrics.setGlobalMeterProvider(later.provider)
  await until(
    async () => (await later.valueOf('txbox.oldest_due.age')) === 3,
    () => 'the gauge',
  )
})

test('the gauge of 0 or 1 has no unit: exporters to Prometheus add _ratio to the name of a gauge with the unit 1', async () => {
  onTestFinished(telemetry.observe('txbox.relay.publisher.up', async () => [{ value: 1, attributes: {} }]))
  expect((await metric('txbox.relay.publisher.up'))!.descriptor.unit).toBe('')
})
