import { setTimeout as pause } from 'node:timers/promises'
import { Producer } from '@platformatic/kafka'
import { afterAll, expect, inject, onTestFinished, test } from 'vitest'
import { createConsumer, type Source } from '@txbox/consumer'
import { kafkaSource, type KafkaSourceOptions } from '@txbox/kafka'
import { failure, outboxMessage, publish, signal } from '../support/subjects/publishing.ts'
import { until } from '../support/worlds/until.ts'
import { ids, opened, receive, receiveFor, send, sourceOf } from './group-under-test.ts'
import { KafkaUnderTest } from './kafka-under-test.ts'

const kafka = new KafkaUnderTest(inject('servers')['kafka']!)
afterAll(() => kafka.close())

const ONE = { brokers: ['127.0.0.1:9092'], topics: ['orders'], groupId: 'billing' }

test.for<readonly [string, Partial<KafkaSourceOptions>]>([
  ['no topic', { topics: [] }],
  ['a topic twice', { topics: ['orders', 'orders'] }],
  ['a topic that is no name', { topics: ['a b'] }],
  ['no group', { groupId: '' }],
  ['a group with a blank', { groupId: 'a b' }],
  ['an unknown beginning', { from: 'now' as never }],
  ['too short a session', { sessionTimeoutMs: 999 }],
  ['too few bytes', { maxBytes: 999 }],
  ['no broker', { brokers: [] }],
  ['an unknown option', { autocommit: true } as never],
])('a wrong option is refused without I/O: %s', ([, options]) => {
  expect(() => kafkaSource({ ...ONE, ...options })).toThrow(
    expect.objectContaining({ code: 'TXBOX_INVALID_OPTION' }) as Error,
  )
})

test('a group begins with the oldest record, or with the next one, which is then not left out while nobody receives', async () => {
  const topic = await kafka.topic({ partitions: 2 })
  await send(kafka, topic, ['old 1', 'old 2'])
  const early = await opened(sourceOf(kafka, topic))
  expect(ids(await receive(early, 2)).toSorted()).toEqual(['old 1', 'old 2'])
  const source = sourceOf(kafka, topic, { from: 'latest' })
  await (await opened(source)).close()
  await send(kafka, topic, ['new 1', 'new 2'])
  const late = await opened(source)
  expect(ids(await receive(late, 2)).toSorted()).toEqual(['new 1', 'new 2'])
  await late.close()
  // Nor is what comes to a new partition before the group knows it.
  await kafka.admin.createPartitions({
    topics: [{ name: topic, count: 3, assignments: [{ brokerIds: [1] }] }],
  })
  const producer = new Producer({ clientId: 'txbox-test', bootstrapBrokers: [kafka.address] })
  onTestFinished(() => producer.close(true))
  const headers = new Map([[Buffer.from('txbox-id'), Buffer.from('new 3')]])
  await producer.send({ messages: [{ topic, partition: 2, value: Buffer.from('{}'), headers }], acks: -1 })
  expect(ids(await receive(await opened(source), 3)).toSorted()).toEqual(['new 1', 'new 2', 'new 3'])
})

test('a message that is retried comes before later ones of its partition', async () => {
  const topic = await kafka.topic({ partitions: 1 })
  await send(kafka, topic, ['a', 'b', 'c', 'd'], 'k')
  const open = await opened(sourceOf(kafka, topic), { prefetch: 2 })
  const [a, b] = await receive(open, 2)
  expect([a!.key, b!.key]).toEqual(['k', 'k'])
  await b!.retry({ delayMs: 0, error: undefined, counted: true })
  await a!.retry({ delayMs: 0, error: undefined, counted: true })
  expect(ids(await receive(open, 2))).toEqual(['a', 'b'])
})

test('records of aborted transactions are left out, also when a producer has aborted several', async () => {
  const topic = await kafka.topic({ partitions: 1 })
  const groupId = kafka.name('group')
  const producer = new Producer({
    ...{ clientId: 'txbox-test', bootstrapBrokers: [kafka.address] },
    ...{ idempotent: true, transactionalId: kafka.name('transaction') },
  })
  onTestFinished(() => producer.close(true))
  for (const [id, isKept] of [
    ['1', false],
    ['2', true],
    ['3', false],
    ['4', false],
    ['5', true],
  ] as const) {
    const transaction = await producer.beginTransaction()
    const headers = new Map([[Buffer.from('txbox-id'), Buffer.from(id)]])
    await transaction.send({ messages: [{ topic, value: Buffer.from('{}'), headers, partition: 0 }] })
    await (isKept ? transaction.commit() : transaction.abort())
  }
  const open = await opened(sourceOf(kafka, topic, { groupId }))
  const deliveries = await receive(open, 2)
  expect(ids(deliveries)).toEqual(['2', '5'])
  expect(await receiveFor(open, 300)).toEqual([])
  for (const one of deliveries) await one.accept()
  await open.close()
  // The records that end transactions are committed, too.
  expect(await kafka.committed(topic, groupId)).toBe(10)
})

test('records that cannot be decoded, have no id or no value are delivered, each as what it is', async () => {
  const topic = await kafka.topic({ partitions: 1 })
  const producer = new Producer({ clientId: 'txbox-test', bootstrapBrokers: [kafka.address] })
  onTestFinished(() => producer.close(true))
  const named = (id: string) => new Map([[Buffer.from('txbox-id'), Buffer.from(id)]])
  const messages = [
    { topic, partition: 0, key: Buffer.from('a'), value: Buffer.from('{'), headers: named('broken') },
    { topic, partition: 0, key: Buffer.from('b'), headers: named('tombstone') },
    { topic, partition: 0, value: Buffer.from('1') },
  ]
  await producer.send({ messages, acks: -1 })
  const [broken, tombstone, nameless] = await receive(await opened(sourceOf(kafka, topic)), 3)
  expect(broken).toMatchObject({ key: 'a', message: { id: 'broken' }, body: { id: 'broken' } })
  expect(String(broken!.undecodable)).toContain('is not JSON')
  expect(tombstone).toMatchObject({ key: 'b', message: { id: 'tombstone', payload: null } })
  expect(tombstone!.undecodable).toBeUndefined()
  expect(nameless).toMatchObject({ key: undefined, message: { id: '', payload: 1 } })
})

test('where records were deleted before the group has received them, the group goes on and says so', async () => {
  const topic = await kafka.topic({ partitions: 1 })
  const source = sourceOf(kafka, topic)
  await send(kafka, topic, ['a', 'b', 'c'])
  const open = await opened(source)
  await (await receive(open, 1))[0]!.accept()
  await open.close()
  await kafka.admin.deleteRecords({ topics: [{ name: topic, partitions: [{ partition: 0, offset: 2n }] }] })
  const warnings: string[] = []
  const again = await opened(source, { warned: (text) => void warnings.push(text) })
  expect(ids(await receive(again, 1))).toEqual(['c'])
  expect(warnings.join()).toContain(`no record at the offset 1 of partition 0 of the topic '${topic}'`)
})

test('a missing topic is an outage that says so', async () => {
  const topic = kafka.name('missing')
  const error = await failure(sourceOf(kafka, topic).open({ prefetch: 1, failed: () => undefined }))
  expect(error).toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE' })
  expect(error.message).toContain(`there is no topic '${topic}'`)
})

test('no more is fetched than has room', async () => {
  const topic = await kafka.topic({ partitions: 1 })
  const messages = Array.from({ length: 60 }, () => outboxMessage({ topic, payload: Buffer.alloc(100_000) }))
  await publish(kafka.publisher(), messages)
  const source = sourceOf(kafka, topic, { maxBytesPerPartition: 200_000, maxBytes: 300_000 })
  const open = await opened(source, { prefetch: 1 })
  const before = process.memoryUsage().arrayBuffers
  await (await receive(open, 1))[0]!.accept()
  await pause(300)
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(4_000_000)
  for (let n = 1; n < 60; n += 1) await (await receive(open, 1))[0]!.accept()
  expect(await receiveFor(open, 100)).toEqual([])
})

test('a consumer of the source keeps the order of keys while handlers fail, and dead letters are published', async () => {
  const topic = await kafka.topic({ partitions: 3 })
  const graveyard = await kafka.topic({ partitions: 1 })
  const publisher = kafka.publisher()
  const messages = Array.from({ length: 200 }, (_, n) =>
    outboxMessage({
      ...{ topic, key: `key ${n % 8}`, contentType: 'application/json' },
      payload: Buffer.from(JSON.stringify({ key: `key ${n % 8}`, n })),
    }),
  )
  await publish(publisher, messages)
  const order: Record<string, number[]> = {}
  let ends = 0
  const consumer = createConsumer({
    source: sourceOf(kafka, topic) as Source<{ key: string; n: number }>,
    name: 'billing',
    ...{ deadLetters: publisher, deadLetterTopic: graveyard, logger: false, concurrency: 8 },
    retry: { attempts: 3, delayMs: () => 5 },
    handler: async ({ payload: { key, n } }, { deliveries }) => {
      if (n % 50 === 7) throw new Error('never')
      if (n % 10 === 3 && deliveries === 1) throw new Error('again')
      ;(order[key] ??= []).push(n)
    },
  })
  onTestFinished(() => consumer.stop())
  consumer.on('retried', () => undefined)
  consumer.on('handled', () => void (ends += 1))
  consumer.on('dead-lettered', () => void (ends += 1))
  await consumer.start()
  await until(
    async () => ends === 200,
    () => `200 ends: ${ends} ${JSON.stringify(consumer.figures)}`,
  )
  expect(Object.values(order).flat().length).toBe(196)
  for (const numbers of Object.values(order)) expect(numbers).toEqual(numbers.toSorted((x, y) => x - y))
  const letters = await (await kafka.log(graveyard)).take()
  expect(
    letters.map(({ value }) => (JSON.parse(String(value)) as { n: number }).n).toSorted((x, y) => x - y),
  ).toEqual([7, 57, 107, 157])
  await publisher.check!({ signal: signal() })
})
