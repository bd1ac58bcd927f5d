import { setTimeout as pause } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { kafkaPublisher, type KafkaPublisherOptions, type OutboxMessage, type Publisher } from '@txbox/kafka'
import { Partitions } from '../../packages/kafka/src/publish/partitions.ts'
import { KafkaStandIn, type ReceivedBatch } from '../support/worlds/kafka-stand-in.ts'
import { failure, outboxMessage, publish, summary } from '../support/subjects/publishing.ts'
import { until } from '../support/worlds/until.ts'

async function standIn(
  options: Partial<KafkaPublisherOptions> = {},
): Promise<{ broker: KafkaStandIn; publisher: Publisher }> {
  const broker = await KafkaStandIn.start()
  const publisher = kafkaPublisher({
    brokers: [broker.address],
    confirmTimeoutMs: 500,
    connectTimeoutMs: 500,
    ...options,
  })
  onTestFinished(async () => {
    await publisher.close?.()
    await broker.close()
  })
  // From now on the topic is known.
  await publish(publisher, [outboxMessage({ topic: 'orders' })])
  broker.received.length = broker.requests = 0
  return { broker, publisher }
}

function numbered(n: number, key = 'a'): OutboxMessage {
  return outboxMessage({ topic: 'orders', key, payload: Buffer.from(String(n)) })
}

function numbersIn(received: readonly ReceivedBatch[]): number[] {
  return received.flatMap(({ records }) => records.map(({ value }) => Number(value)))
}

test('calls that overlap share requests, and the batches of a partition keep the order of the calls', async () => {
  const { broker, publisher } = await standIn()
  const gate = Promise.withResolvers<void>()
  broker.gate = gate.promise
  const first = publish(publisher, [numbered(0)])
  await until(
    async () => broker.requests === 1,
    () => 'no request',
  )
  const others = Array.from({ length: 30 }, (_, n) => publish(publisher, [numbered(n + 1, `key ${n % 10}`)]))
  gate.resolve()
  for (const results of await Promise.all([first, ...others])) expect(summary(results)).toEqual(['accepted'])
  // Each request has one batch of each of the three partitions; what two calls send never becomes one batch.
  expect(broker.requests).toBeLessThanOrEqual(20)
  expect(broker.received.every(({ records }) => records.length === 1)).toBe(true)
  for (let key = 0; key < 10; key += 1) {
    const own = numbersIn(broker.received).filter((n) => n > 0 && (n - 1) % 10 === key)
    expect(own).toEqual([key + 1, key + 11, key + 21])
  }
})

test('a call that is aborted before its messages are sent does not disturb others, and they are never sent', async () => {
  const { broker, publisher } = await standIn()
  const gate = Promise.withResolvers<void>()
  broker.gate = gate.promise
  const abort = new AbortController()
  const first = publish(publisher, [numbered(1)])
  await until(
    async () => broker.requests === 1,
    () => 'no request',
  )
  const waiting = publisher.publish([numbered(3)], { signal: abort.signal })
  const last = publish(publisher, [numbered(4)])
  // By then, both calls wait for the first one.
  await pause(20)
  abort.abort(new Error('stop now'))
  expect((await failure(waiting)).message).toBe('stop now')
  gate.resolve()
  expect(summary(await first)).toEqual(['accepted'])
  expect(summary(await last)).toEqual(['accepted'])
  expect(numbersIn(broker.received)).toEqual([1, 4])
})

test('a call that is aborted while its messages are in flight ends the connection, and nothing is sent afterwards', async () => {
  const { broker, publisher } = await standIn()
  const gate = Promise.withResolvers<void>()
  broker.gate = gate.promise
  const abort = new AbortController()
  const first = failure(publisher.publish([numbered(1)], { signal: abort.signal }))
  await until(
    async () => broker.requests === 1,
    () => 'no request',
  )
  const other = failure(publish(publisher, [numbered(2)]))
  await pause(20)
  abort.abort(new Error('stop now'))
  expect((await first).message).toBe('stop now')
  expect(await other).toMatchObject({
    code: 'TXBOX_BROKER_UNAVAILABLE',
    message: expect.stringContaining('a call was aborted while its messages were in flight'),
  })
  await until(
    async () => broker.connections === 0,
    () => 'open connections',
  )
  gate.resolve()
  await pause(100)
  expect(numbersIn(broker.received)).toEqual([1])
  expect(summary(await publish(publisher, [numbered(2)]))).toEqual(['accepted'])
})

test('a broker that does not answer makes all calls throw in time, and the next call works', async () => {
  const { broker, publisher } = await standIn()
  broker.gate = new Promise(() => undefined)
  const began = performance.now()
  const calls = [publish(publisher, [numbered(1)]), publish(publisher, [numbered(2)])]
  for (const call of calls) {
    expect((await failure(call)).message).toMatch(
      /Publishing to Kafka at 127\.0\.0\.1:\d+ failed: .*timed out/,
    )
  }
  expect(performance.now() - began).toBeLessThan(1500)
  broker.gate = Promise.resolve()
  expect(summary(await publish(publisher, [numbered(1)]))).toEqual(['accepted'])
})

test('closing gives up what waits in the buffers of the connection', async () => {
  const { broker, publisher } = await standIn({ maxMessageBytes: 20_000_000 })
  broker.pause()
  const large = outboxMessage({ topic: 'orders', payload: Buffer.alloc(20_000_000) })
  const call = failure(publish(publisher, [large]))
  await pause(200)
  await publisher.close!()
  expect((await call).message).toContain('is closed')
  broker.resume()
  await until(
    async () => broker.connections === 0,
    () => 'open connections',
  )
  expect(broker.requests).toBe(0)
})

test.for([true, false])(
  'all replicas must confirm, with an idempotent producer or without one (%s)',
  async (idempotent) => {
    const { broker, publisher } = await standIn({ idempotent })
    await publish(publisher, [numbered(1)])
    expect(new Set(broker.acks)).toEqual(new Set([-1]))
  },
)

test('a connection that breaks ends its calls at once; nothing is sent again behind the back of the relay', async () => {
  const { broker, publisher } = await standIn()
  broker.gate = new Promise(() => undefined)
  const call = publish(publisher, [numbered(1)])
  await until(
    async () => broker.requests === 1,
    () => 'no request',
  )
  const began = performance.now()
  broker.cut()
  expect((await failure(call)).message).toContain('Connection closed')
  expect(performance.now() - began).toBeLessThan(400)
  await pause(700)
  expect(broker.requests).toBe(1)
  broker.gate = Promise.resolve()
  expect(summary(await publish(publisher, [numbered(1)]))).toEqual(['accepted'])
})

test('closing ends a call in progress, and later calls throw', async () => {
  const { broker, publisher } = await standIn()
  broker.gate = new Promise(() => undefined)
  const call = publish(publisher, [numbered(1)])
  await until(
    async () => broker.requests === 1,
    () => 'no request',
  )
  await publisher.close!()
  for (const ended of [call, publish(publisher, [numbered(2)])]) {
    expect((await failure(ended)).message).toContain('is closed')
  }
})

test('records that wait while their topic gets more partitions are sent to their new partitions', async () => {
  // An idempotent client asks for nothing while a request to produce is in flight.
  const { broker, publisher } = await standIn({ idempotent: false })
  const gates = [0, 1].map(() => Promise.withResolvers<void>())
  broker.gate = gates[0]!.promise
  broker.answer = () => ({ code: broker.received.length === 1 ? 6 : 0 })
  const moved = publish(publisher, [numbered(100)])
  await until(
    async () => broker.requests === 1,
    () => 'no request',
  )
  broker.partitions = 12
  const second = publish(publisher, [numbered(101, 'b')])
  await pause(20)
  broker.gate = gates[1]!.promise
  gates[0]!.resolve()
  await until(
    async () => broker.requests === 2,
    () => 'no second request',
  )
  // While this call waits, the first one asks for the topic again.
  const messages = Array.from({ length: 20 }, (_, n) => numbered(n, `key ${n}`))
  const waiting = publish(publisher, messages)
  await pause(200)
  gates[1]!.resolve()
  for (const call of [moved, second, waiting]) {
    expect(new Set(summary(await call))).toEqual(new Set(['accepted']))
  }
  const partitions = new Partitions()
  for (const { partition, records } of broker.received) {
    for (const { key, value } of records) {
      if (Number(value) < 100) expect(partition).toBe(partitions.of(key!, 12))
    }
  }
  expect(numbersIn(broker.received).filter((n) => n < 100).length).toBe(20)
})
