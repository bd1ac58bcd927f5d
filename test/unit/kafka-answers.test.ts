import { setTimeout as pause } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { kafkaPublisher, type PublishResult, type Publisher } from '@txbox/kafka'
import { KafkaStandIn, type ReceivedBatch } from '../support/worlds/kafka-stand-in.ts'
import { outboxMessage, publish, reason } from '../support/subjects/publishing.ts'

async function standIn(): Promise<{ broker: KafkaStandIn; publisher: Publisher }> {
  const broker = await KafkaStandIn.start()
  const publisher = kafkaPublisher({ brokers: [broker.address], confirmTimeoutMs: 3000 })
  onTestFinished(async () => {
    await publisher.close?.()
    await broker.close()
  })
  return { broker, publisher }
}

/** Each result as text. */
function summary(results: readonly PublishResult[]): string[] {
  return results.map((result) => {
    if (result.status !== 'rejected') return result.status
    if (!result.retryable) return 'final'
    return result.counted === false ? 'uncounted' : 'counted'
  })
}

function valuesOf({ records }: ReceivedBatch): string[] {
  return records.map(({ value }) => String(value))
}

test('messages of one key share a batch, in order, whatever their number', async () => {
  const { broker, publisher } = await standIn()
  const messages = Array.from({ length: 40 }, (_, n) =>
    outboxMessage({ topic: 'orders', key: `key ${n % 2}`, payload: Buffer.from(String(n)) }),
  )
  expect(new Set(summary(await publish(publisher, messages)))).toEqual(new Set(['accepted']))
  const numbers = broker.received.map((batch) => valuesOf(batch).map(Number))
  expect(numbers.flat().length).toBe(40)
  for (const batch of numbers) expect(batch).toEqual(batch.toSorted((a, b) => a - b))
  expect(broker.received.length).toBeLessThanOrEqual(2)
})

const CODES = [
  [3, 'counted'],
  [5, 'uncounted'],
  [6, 'uncounted'],
  [7, 'uncounted'],
  [10, 'final'],
  [17, 'final'],
  [18, 'final'],
  [19, 'uncounted'],
  [20, 'uncounted'],
  [29, 'counted'],
  [32, 'final'],
  [44, 'final'],
  [56, 'uncounted'],
  [72, 'uncounted'],
  [87, 'final'],
  [89, 'uncounted'],
  [2, 'final'],
] as const

test('each code of a partition has its verdict, with a reason, and does not disturb other partitions', async () => {
  const { broker, publisher } = await standIn()
  broker.answer = ({ topic }) => ({ code: Number(/\d+$/.exec(topic)?.[0] ?? 0), text: 'because of the moon' })
  const messages = CODES.flatMap(([code]) => [
    outboxMessage({ topic: `bad-${code}`, key: `key ${code}` }),
    outboxMessage({ topic: 'good', key: `key ${code}` }),
    outboxMessage({ topic: 'good', key: `good ${code}` }),
  ])
  const results = await publish(publisher, messages)
  expect(summary(results)).toEqual(CODES.flatMap(([, expected]) => [expected, 'skipped', 'accepted']))
  for (const [n, [code]] of CODES.entries()) {
    const text = reason(results[n * 3])
    expect(text).toContain(messages[n * 3]!.id)
    expect(text).toContain(`topic 'bad-${code}' (${code} `)
    expect(text).toContain('because of the moon')
  }
  const stored = broker.received.filter(({ topic }) => topic === 'good').flatMap(({ records }) => records)
  expect(stored.length).toBe(CODES.length)
})

test.for([14, 31, 42, 45, 47])('after the code %i nothing is known: the call throws', async (code) => {
  const { broker, publisher } = await standIn()
  broker.answer = () => ({ code })
  const messages = [outboxMessage({ topic: 'orders' })]
  await expect(publish(publisher, messages)).rejects.toMatchObject({
    code: 'TXBOX_BROKER_UNAVAILABLE',
    retryable: true,
    message: expect.stringContaining(`the code ${code} for topic 'orders'`),
  })
  broker.answer = () => ({ code: 0 })
  expect(summary(await publish(publisher, messages))).toEqual(['accepted'])
})

test('a code for one partition leaves results of the others, also when the call throws', async () => {
  const { broker, publisher } = await standIn()
  const messages = [outboxMessage({ topic: 'bad' }), outboxMessage({ topic: 'good' })]
  // From now on the topics are known, and share a request.
  await publish(publisher, messages)
  broker.answer = ({ topic }) => ({ code: topic === 'bad' ? 45 : 0 })
  const answers = new Map<number, PublishResult>()
  const call = publisher.publish(messages, {
    signal: new AbortController().signal,
    answered: (n, result) => void answers.set(n, result),
  })
  await expect(call).rejects.toThrow('code 45')
  expect([...answers]).toEqual([[1, { status: 'accepted' }]])
})

test('Kafka names the records that it refuses: the others of the batch are sent again without them, in order', async () => {
  const { broker, publisher } = await standIn()
  broker.answer = (batch) => {
    const culprits = valuesOf(batch).flatMap((value, n) => (value.startsWith('bad') ? [n] : []))
    return culprits.length === 0
      ? { code: 0 }
      : { code: 87, culprits: culprits.map((n) => [n, `record ${n} is refused`] as const) }
  }
  const values = ['1', '2', 'bad 3', '4', '5', 'bad 6', '7']
  const messages = values.map((value, n) =>
    outboxMessage({ topic: 'orders', key: n < 4 ? 'a' : 'b', payload: Buffer.from(value) }),
  )
  const results = await publish(publisher, messages)
  expect(summary(results)).toEqual([
    ...['accepted', 'accepted', 'final', 'skipped'],
    ...['accepted', 'final', 'skipped'],
  ])
  expect(reason(results[2])).toContain('record 2 is refused')
  const stored = broker.received.filter((batch) => !valuesOf(batch).some((value) => value.startsWith('bad')))
  expect(stored.flatMap(valuesOf).toSorted()).toEqual(['1', '2', '5'])
})

test('a batch that is too large is divided until its records fit, and the topic gets smaller batches from then on', async () => {
  const { broker, publisher } = await standIn()
  broker.answer = (batch) => ({ code: valuesOf(batch).join('').length > 2500 ? 10 : 0 })
  const messages = Array.from({ length: 40 }, (_, n) =>
    outboxMessage({ topic: 'orders', key: 'a', payload: Buffer.alloc(1000, n === 20 ? 'x'.repeat(1) : 'y') }),
  )
  const tooLarge = outboxMessage({ topic: 'orders', key: 'b', payload: Buffer.alloc(2501, 'z') })
  const results = await publish(publisher, [...messages, tooLarge])
  expect(summary(results)).toEqual([...messages.map(() => 'accepted'), 'final'])
  expect(reason(results[40])).toMatch(/max\.message\.bytes.* about 26\d\d bytes/)
  broker.received.length = 0
  await publish(publisher, messages)
  expect(broker.received.every((batch) => valuesOf(batch).length <= 2)).toBe(true)
})

test('where Kafka names no record, the records of the batch are sent alone; a damaged record is sent once more', async () => {
  const { broker, publisher } = await standIn()
  const seen: string[] = []
  broker.answer = (batch) => {
    const values = valuesOf(batch)
    if (values.length === 1) seen.push(values[0]!)
    return { code: values.includes('bad') ? 2 : 0 }
  }
  const messages = ['1', 'bad', '3'].map((value, n) =>
    outboxMessage({ topic: 'orders', key: `key ${n}`, payload: Buffer.from(value) }),
  )
  const all = messages.map((message) => ({ ...message, key: 'the same' }))
  expect(summary(await publish(publisher, all))).toEqual(['accepted', 'final', 'skipped'])
  expect(seen).toEqual(['1', 'bad'])
  seen.length = 0
  expect(summary(await publish(publisher, [messages[1]!]))).toEqual(['final'])
  expect(seen).toEqual(['bad', 'bad'])
})

test('a topic that was just made, and a leader that just moved, are waited for', async () => {
  const { broker, publisher } = await standIn()
  let asked = 0
  broker.metadataCode = () => (++asked < 4 ? 3 : 0)
  let sent = 0
  broker.answer = () => ({ code: ++sent < 4 ? 6 : 0 })
  expect(summary(await publish(publisher, [outboxMessage({ topic: 'new' })]))).toEqual(['accepted'])
  // Each answer that the leader has moved makes the publisher ask for the leader.
  expect([asked, sent]).toEqual([7, 4])
})

test('a missing topic counts attempts, unless this publisher has published to it before; only the first call waits for it', async () => {
  const { broker, publisher } = await standIn()
  expect(summary(await publish(publisher, [outboxMessage({ topic: 'seen' })]))).toEqual(['accepted'])
  broker.answer = () => ({ code: 3 })
  broker.metadataCode = () => 3
  const messages = [outboxMessage({ topic: 'seen' }), outboxMessage({ topic: 'never' })]
  expect(summary(await publish(publisher, messages))).toEqual(['uncounted', 'counted'])
  const began = performance.now()
  expect(summary(await publish(publisher, messages))).toEqual(['uncounted', 'counted'])
  expect(performance.now() - began).toBeLessThan(1000)
  broker.answer = () => ({ code: 0 })
  broker.metadataCode = () => 0
  expect(summary(await publish(publisher, messages))).toEqual(['accepted', 'accepted'])
})

test('a topic without a leader or without permission does not hold up the others', async () => {
  const { broker, publisher } = await standIn()
  broker.metadataCode = (topic) => ({ leaderless: 5, forbidden: 29 })[topic] ?? 0
  const answered: number[] = []
  const began = performance.now()
  const results = await publisher.publish(
    ['leaderless', 'forbidden', 'good'].map((topic) => outboxMessage({ topic })),
    {
      signal: new AbortController().signal,
      answered: (n) => void answered.push(n, Math.round(performance.now() - began)),
    },
  )
  expect(summary(results)).toEqual(['uncounted', 'counted', 'accepted'])
  expect(answered[answered.indexOf(2) + 1]).toBeLessThan(1000)
})

test('a broker that has just started, and gives out no ids of producers yet, is waited for', async () => {
  const { broker, publisher } = await standIn()
  broker.initProducerCode = 14
  const call = publish(publisher, [outboxMessage({ topic: 'orders' })])
  await pause(300)
  broker.initProducerCode = 0
  expect(summary(await call)).toEqual(['accepted'])
})

test('a user who may not produce at all is an outage, also for check', async () => {
  const { broker, publisher } = await standIn()
  broker.initProducerCode = 31
  const expected = /Cannot connect to Kafka at 127\.0\.0\.1:\d+: .*\(31 CLUSTER_AUTHORIZATION_FAILED\)/
  await expect(publish(publisher, [outboxMessage({ topic: 'orders' })])).rejects.toThrow(expected)
  await expect(publisher.check!({ signal: new AbortController().signal })).rejects.toThrow(expected)
})

test('times that are far apart are in batches of their own, as the client writes a greater difference wrong', async () => {
  const { broker, publisher } = await standIn()
  const days = [0, 20, 30, 60, 61].map((day) => new Date(Date.UTC(2026, 0, 1 + day)))
  const messages = days.map((createdAt) => outboxMessage({ topic: 'orders', key: 'a', createdAt }))
  expect(new Set(summary(await publish(publisher, messages)))).toEqual(new Set(['accepted']))
  expect(broker.received.map(({ records }) => records.length)).toEqual([2, 1, 2])
})
