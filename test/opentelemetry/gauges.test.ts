import { randomUUID } from 'node:crypto'
import { AggregationTemporality, InstrumentType } from '@opentelemetry/sdk-metrics'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import { telemetryKey } from '@txbox/core'
import { openTelemetry } from '@txbox/opentelemetry'
import { queueSource } from '@txbox/queue'
import { BoxUnderTest } from '../support/subjects/box-under-test.ts'
import { QueueUnderTest } from '../support/subjects/queue-under-test.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../support/subjects/relay-under-test.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { Broker, Gate, holding } from '../support/worlds/broker.ts'
import { until } from '../support/worlds/until.ts'
import { MetricsUnderTest, useMetrics } from './metrics-under-test.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target), { max: 20 })
const sdk = useMetrics()

/** As `@txbox/opentelemetry/register` does, until the test ends. */
function register(): void {
  Object.assign(globalThis, { [telemetryKey]: openTelemetry() })
  onTestFinished(() => void Object.assign(globalThis, { [telemetryKey]: undefined }))
}

async function has(metric: string, attributes: object, isIt: (value: number) => boolean): Promise<void> {
  await until(
    async () => {
      const [point, ...more] = await sdk.pointsOf(metric, attributes)
      return more.length === 0 && point !== undefined && isIt(point.value as number)
    },
    async () => `${metric}; there is ${JSON.stringify(await sdk.pointsOf(metric))}`,
  )
}

test('an SDK exports the gauges of a relay and of its tables, from its start to its stop', async () => {
  register()
  const gate = new Gate()
  onTestFinished(() => gate.open())
  const broker = new Broker()
  const { relay } = await RelayUnderTest.started(root, broker.publisher({ respond: holding(gate) }))
  await publishAll(root, messagesOf('a', 3))
  await has('txbox.relay.shards', {}, (value) => value === 16)
  await has('txbox.relay.publisher.up', {}, (value) => value === 1)
  await has('txbox.oldest_due.age', {}, (value) => value > 0)
  await has('txbox.outbox.backlog.messages', {}, (value) => value === 3)
  const [age, shards] = [await sdk.metric('txbox.oldest_due.age'), await sdk.metric('txbox.relay.shards')]
  expect([age!.descriptor.unit, shards!.descriptor.unit]).toEqual(['s', '{shard}'])
  gate.open()
  await outbox.settled()
  await relay.stop()
  // The usual SDK exports each series forever: not with a value that nobody reads any more.
  for (const metric of ['txbox.relay.shards', 'txbox.oldest_due.age', 'txbox.outbox.backlog.messages']) {
    await has(metric, {}, (value) => value === 0)
  }
})

test('an SDK exports the messages in flight of a consumer, and the queue that it reads', async () => {
  register()
  const gate = new Gate()
  onTestFinished(() => gate.open())
  const queue = new QueueUnderTest(target, root)
  await queue.send({ id: 'a' }, { id: 'b' })
  const name = `consumer-${randomUUID()}`
  const consumer = createConsumer({ source: queueSource(queue.queue), name, handler: () => gate.pass() })
  onTestFinished(() => consumer.stop({ timeoutMs: 500 }))
  await consumer.start()
  const inFlight = 'txbox.consumer.in_flight.messages'
  await has(inFlight, { consumer: name }, (value) => value === 2)
  await has('txbox.queue.messages', { queue: queue.queue.name, state: 'in_flight' }, (value) => value === 2)
  gate.open()
  await has(inFlight, { consumer: name }, (value) => value === 0)
  await consumer.stop()
})

test('an SDK that forgets series exports a gauge that has ended as 0, and then no more', async () => {
  const forgetting = new MetricsUnderTest((type) =>
    type === InstrumentType.OBSERVABLE_GAUGE
      ? AggregationTemporality.DELTA
      : AggregationTemporality.CUMULATIVE,
  )
  onTestFinished(() => forgetting.provider.shutdown())
  const telemetry = openTelemetry({ meter: forgetting.provider.getMeter('txbox') })
  const values = new Map([
    ['a', 3],
    ['b', 4],
  ])
  const end = telemetry.observe('txbox.queue.messages', async () =>
    [...values].map(([queue, value]) => ({ value, attributes: { queue } })),
  )
  const endUp = telemetry.observe('txbox.relay.publisher.up', async () => [{ value: 1, attributes: {} }])
  const exported = async (): Promise<unknown> =>
    (await forgetting.pointsOf('txbox.queue.messages'))
      .map(({ value }) => value as number)
      .toSorted((a, b) => a - b)
  expect(await exported()).toEqual([3, 4])
  values.delete('a')
  expect(await exported()).toEqual([0, 4])
  expect(await exported()).toEqual([4])
  const others = ['txbox.relay.shards', 'txbox.queue.age'] as const
  for (const metric of others) telemetry.observe(metric, async () => [{ value: 5, attributes: {} }])
  end()
  endUp()
  expect(await exported()).toEqual([0])
  // The last callbacks that are removed make the SDK skip no other one.
  for (const metric of others) expect(await forgetting.valueOf(metric)).toBe(5)
  expect(await forgetting.pointsOf('txbox.relay.publisher.up')).toEqual([])
  expect(await exported()).toEqual([])
})

test('two relays of one process are one series: their shards are counted together', async () => {
  register()
  const broker = new Broker()
  await RelayUnderTest.started(root, broker.publisher({ owner: 'one' }))
  await RelayUnderTest.started(root, broker.publisher({ owner: 'two' }))
  await has('txbox.relay.shards', {}, (value) => value === 16)
  await has('txbox.outbox.backlog.messages', {}, (value) => value === 0)
})

test('a box without a relay and consumers tells its tables, with the telemetry that it was given', async () => {
  const box = await new BoxUnderTest(target, root).start({}, { telemetry: openTelemetry() })
  await has('txbox.outbox.backlog.messages', {}, (value) => value === 0)
  await publishAll(root, messagesOf('a', 2))
  await box.stop()
})
