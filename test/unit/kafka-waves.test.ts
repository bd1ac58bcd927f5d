import { expect, onTestFinished, test } from 'vitest'
import { kafkaPublisher, type OutboxMessage, type Publisher } from '@txbox/kafka'
import { KafkaStandIn, type ReceivedBatch } from '../support/worlds/kafka-stand-in.ts'
import { failure, outboxMessage, publish, summary } from '../support/subjects/publishing.ts'
import { until } from '../support/worlds/until.ts'

async function standIn(): Promise<{ broker: KafkaStandIn; publisher: Publisher }> {
  const broker = await KafkaStandIn.start()
  const publisher = kafkaPublisher({
    brokers: [broker.address],
    confirmTimeoutMs: 500,
    connectTimeoutMs: 500,
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
  // Each request has one batch of each of the three partitions.
  expect(broker.requests).toBeLessThanOrEqual(20)
  for (let key = 0; key < 10; key += 1) {
    const own = numbersIn(broker.received).filter((n) => n > 0 && (n - 1) % 10 === key)
    expect(own).toEqual([key + 1, key + 11, key + 21])
  }
})

test('a call that is aborted ends at once, and does not disturb others; what was not sent is never sent', async () => {
  const { broker, publisher } = await standIn()
  const gate = Promise.withResolvers<void>()
  broker.gate = gate.promise
  const abort = new AbortController()
  const first = publisher.publish([numbered(1)], { signal: abort.signal })
  const other = publish(publisher, [numbered(2)])
  await until(
    async () => broker.requests === 1,
    () => 'no request',
  )
  const waiting = publisher.publish([numbered(3)], { signal: abort.signal })
  const last = publish(publisher, [numbered(4)])
  abort.abort(new Error('stop now'))
  expect((await failure(first)).message).toBe('stop now')
  expect((await failure(waiting)).message).toBe('stop now')
  gate.resolve()
  expect(summary(await other)).toEqual(['accepted'])
  expect(summary(await last)).toEqual(['accepted'])
  expect(numbersIn(broker.received)).toEqual([1, 2, 4])
})

test('a broker that does not answer makes all calls throw in time, and the next call works', async () => {
  const { broker, publisher } = await standIn()
  broker.gate = new Promise(() => undefined)
  const began = performance.now()
  const calls = [publish(publisher, [numbered(1)]), publish(publisher, [numbered(2)])]
  for (const call of calls) {
    expect((await failure(call)).message).toMatch(/Kafka at 127\.0\.0\.1:\d+ cannot be reached: .*timed out/)
  }
  expect(performance.now() - began).toBeLessThan(1500)
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

test('a topic that has changed since the partition was chosen gets the records by its new partitions', async () => {
  const { broker, publisher } = await standIn()
  broker.partitions = 12
  broker.answer = () => ({ code: broker.received.length === 1 ? 6 : 0 })
  const keys = Array.from({ length: 40 }, (_, n) => numbered(n, `key ${n}`))
  expect(new Set(summary(await publish(publisher, keys)))).toEqual(new Set(['accepted']))
  const after = numbersIn(broker.received.slice(1))
  expect(new Set(after).size).toBe(40)
  broker.received.length = 0
  await publish(publisher, keys)
  expect(new Set(broker.received.map(({ partition }) => partition)).size).toBeGreaterThan(8)
})
