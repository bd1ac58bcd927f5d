import { afterAll, expect, inject, test } from 'vitest'
import { outboxMessage, publish, reason, summary } from '../support/subjects/publishing.ts'
import { KafkaUnderTest, headerOf, idOf, idsOf } from './kafka-under-test.ts'

const kafka = new KafkaUnderTest(inject('servers')['kafka']!)
afterAll(() => kafka.close())

test('a record has the fields of its message, and arrives as it was published', async () => {
  const topic = await kafka.topic({ partitions: 1 })
  const log = await kafka.log(topic)
  const message = outboxMessage({
    topic: 'orders',
    type: 'order.paid',
    key: 'Straße/4 ✓',
    correlationId: 'c-1',
    contentType: 'text/plain',
    contentEncoding: 'gzip',
    headers: { tenant: 'north', '': 'without a name', 'txbox-type': "the message's own" },
    payload: Buffer.from([0, 255, 10]),
  })
  const results = await publish(kafka.publisher({ topic: () => topic }), [message])
  expect(summary(results)).toEqual(['accepted'])
  const [record] = await log.take()
  expect(record?.value).toEqual(Buffer.from([0, 255, 10]))
  expect(String(record?.key)).toBe('Straße/4 ✓')
  expect(record?.timestamp).toBe(message.createdAt.getTime())
  expect(record?.headers).toEqual([
    ['tenant', 'north'],
    ['', 'without a name'],
    ['txbox-type', "the message's own"],
    ['txbox-id', message.id],
    ['txbox-type', 'order.paid'],
    ['txbox-correlation-id', 'c-1'],
    ['content-type', 'text/plain'],
    ['content-encoding', 'gzip'],
    ['txbox-time', '2026-03-04T05:06:07.890Z'],
  ])
  expect(headerOf(record!, 'txbox-type')).toBe('order.paid')
})

test('the messages of a key are in one partition, in their order; those without a key are in all', async () => {
  const topic = await kafka.topic({ partitions: 5 })
  const log = await kafka.log(topic)
  const messages = Array.from({ length: 3000 }, (_, n) =>
    outboxMessage({ topic, ...(n % 10 > 0 && { key: `key ${n % 10}` }) }),
  )
  expect(new Set(summary(await publish(kafka.publisher(), messages)))).toEqual(new Set(['accepted']))
  const records = await log.take()
  expect(records.length).toBe(3000)
  for (let key = 1; key < 10; key += 1) {
    const own = records.filter((record) => String(record.key) === `key ${key}`)
    expect(new Set(own.map(({ partition }) => partition)).size).toBe(1)
    expect(idsOf(own)).toEqual(messages.filter((each) => each.key === `key ${key}`).map(({ id }) => id))
  }
  const unkeyed = records.filter(({ key }) => key === null)
  expect(new Set(unkeyed.map(({ partition }) => partition)).size).toBe(5)
})

test('the messages of a key are in order across topics and batches', async () => {
  const topics = [await kafka.topic(), await kafka.topic()]
  const logs = await Promise.all(topics.map((topic) => kafka.log(topic)))
  const messages = Array.from({ length: 60 }, (_, n) =>
    outboxMessage({ topic: topics[n % 2]!, key: `key ${n % 3}`, payload: Buffer.alloc(100_000, n) }),
  )
  const order: number[] = []
  await kafka.publisher().publish(messages, {
    signal: new AbortController().signal,
    answered: (n) => void order.push(n),
  })
  for (let key = 0; key < 3; key += 1) {
    const own = order.filter((n) => n % 3 === key)
    expect(own).toEqual(own.toSorted((a, b) => a - b))
  }
  const stored = await Promise.all(logs.map((log) => log.take()))
  expect(stored.flat().length).toBe(60)
})

test.for(['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const)(
  'the compression %s, with and without an idempotent producer',
  async (compression) => {
    const topic = await kafka.topic()
    const log = await kafka.log(topic)
    for (const idempotent of [true, false]) {
      const messages = Array.from({ length: 50 }, (_, n) =>
        outboxMessage({ topic, payload: Buffer.alloc(10_000, n) }),
      )
      const publisher = kafka.publisher({ compression, idempotent })
      expect(new Set(summary(await publish(publisher, messages)))).toEqual(new Set(['accepted']))
      const records = await log.take()
      const values = new Map(records.map((record) => [idOf(record), record.value]))
      for (const { id, payload } of messages) expect(values.get(id)).toEqual(Buffer.from(payload))
      expect(records.length).toBe(50)
    }
  },
)

test("a record above the topic's max.message.bytes is rejected for good, with its size; a batch above it is divided", async () => {
  const topic = await kafka.topic({ partitions: 1, configs: { 'max.message.bytes': '20000' } })
  const log = await kafka.log(topic)
  const small = Array.from({ length: 40 }, () =>
    outboxMessage({ topic, key: 'a', payload: Buffer.alloc(1000, 'a') }),
  )
  const large = outboxMessage({ topic, key: 'b', payload: Buffer.alloc(20_000, 'b') })
  const results = await publish(kafka.publisher(), [...small, large])
  expect(summary(results)).toEqual([...small.map(() => 'accepted'), 'rejected for good'])
  expect(reason(results[40])).toContain('10 MESSAGE_TOO_LARGE')
  expect(reason(results[40])).toMatch(/about 20\d\d\d bytes/)
  expect(idsOf(await log.take())).toEqual(small.map(({ id }) => id))
})

test('a compacted topic refuses a message without a key, and stores the others of its batch', async () => {
  const topic = await kafka.topic({ partitions: 1, configs: { 'cleanup.policy': 'compact' } })
  const log = await kafka.log(topic)
  const messages = ['a', undefined, 'b', undefined, 'a'].map((key) =>
    outboxMessage({ topic, ...(key !== undefined && { key }) }),
  )
  const results = await publish(kafka.publisher(), messages)
  expect(summary(results)).toEqual([
    ...['accepted', 'rejected for good', 'accepted', 'rejected for good', 'accepted'],
  ])
  expect(reason(results[1])).toContain(messages[1]!.id)
  expect(reason(results[1])).toContain('87 INVALID_RECORD')
  expect(idsOf(await log.take()).toSorted()).toEqual(
    [messages[0]!, messages[2]!, messages[4]!].map(({ id }) => id).toSorted(),
  )
})

test('a time of creation more than an hour ahead is rejected for good; times far in the past keep', async () => {
  const topic = await kafka.topic({ partitions: 1 })
  const log = await kafka.log(topic)
  const now = Date.now()
  const times = [
    now - 90 * 86_400_000,
    now - 1000,
    now + 7_200_000,
    now - 30 * 86_400_000,
    now - 400 * 86_400_000,
  ]
  const messages = times.map((time) => outboxMessage({ topic, createdAt: new Date(time) }))
  const results = await publish(kafka.publisher(), messages)
  expect(summary(results)).toEqual([...['accepted', 'accepted', 'rejected for good', 'accepted', 'accepted']])
  expect(reason(results[2])).toContain('32 INVALID_TIMESTAMP')
  const stored = new Map((await log.take()).map((record) => [idOf(record), record.timestamp]))
  for (const [n, { id }] of messages.entries()) if (n !== 2) expect(stored.get(id)).toBe(times[n])
})

test('where a topic keeps the time of arrival, the time of creation is a header', async () => {
  const topic = await kafka.topic({ partitions: 1, configs: { 'message.timestamp.type': 'LogAppendTime' } })
  const log = await kafka.log(topic)
  const message = outboxMessage({ topic, createdAt: new Date('2020-01-02T03:04:05.678Z') })
  expect(summary(await publish(kafka.publisher(), [message]))).toEqual(['accepted'])
  const [record] = await log.take()
  expect(headerOf(record!, 'txbox-time')).toBe('2020-01-02T03:04:05.678Z')
})

test('a topic that goes away is an outage of its own, and works again when it is back', async () => {
  const [gone, other] = [await kafka.topic(), await kafka.topic()]
  const publisher = kafka.publisher()
  const messages = [outboxMessage({ topic: gone, key: 'a' }), outboxMessage({ topic: other, key: 'b' })]
  expect(summary(await publish(publisher, messages))).toEqual(['accepted', 'accepted'])
  await kafka.admin.deleteTopics({ topics: [gone] })
  const results = await publish(publisher, messages)
  expect(results[0]).toMatchObject({ status: 'rejected', retryable: true, counted: false })
  expect(results[1]).toEqual({ status: 'accepted' })
  expect(reason(results[0])).toContain(`topic '${gone}' (3 UNKNOWN_TOPIC_OR_PARTITION)`)
  await kafka.admin.createTopics({ topics: [gone], partitions: 1, replicas: 1 })
  const log = await kafka.log(gone)
  expect(summary(await publish(publisher, messages))).toEqual(['accepted', 'accepted'])
  expect(idsOf(await log.take())).toEqual([messages[0]!.id])
})

test('an option topic that fails rejects its message for now, by its id', async () => {
  const topic = await kafka.topic()
  const publisher = kafka.publisher({
    topic: ({ key }) => {
      if (key === 'bad') throw new Error('no such route')
      return key === 'none' ? (undefined as never) : topic
    },
  })
  const messages = ['good', 'bad', 'none'].map((key) => outboxMessage({ topic: 'any', key }))
  const results = await publish(publisher, messages)
  expect(summary(results)).toEqual(['accepted', 'rejected for now', 'rejected for now'])
  expect(reason(results[1])).toContain(`${messages[1]!.id} has no topic, because the option 'topic' failed`)
  expect(reason(results[1])).toContain('no such route')
})

test('check connects, and tells why it cannot', async () => {
  const { signal } = new AbortController()
  await kafka.publisher().check!({ signal })
  const away = kafka.publisher({ brokers: ['127.0.0.1:9', '127.0.0.1:10'], connectTimeoutMs: 2000 })
  await expect(away.check!({ signal })).rejects.toThrow(
    /Cannot connect to Kafka at 127\.0\.0\.1:9, 127\.0\.0\.1:10: .*ECONNREFUSED/,
  )
  // A broker that is away is no matter while another one answers.
  const half = kafka.publisher({ brokers: ['127.0.0.1:9', kafka.address] })
  await half.check!({ signal })
  await expect(half.check!({ signal: AbortSignal.abort(new Error('stop')) })).rejects.toThrow('stop')
})
