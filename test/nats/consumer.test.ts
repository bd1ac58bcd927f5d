import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { PermanentError, createConsumer, type ConsumerOptions } from '@txbox/consumer'
import { createInbox } from '@txbox/inbox'
import { natsSource, type NatsSourceOptions } from '@txbox/nats'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { listen, type ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { outboxMessage, signal } from '../support/subjects/publishing.ts'
import { until } from '../support/worlds/until.ts'
import { idsOf, urlAt, useNats } from './nats-under-test.ts'

const target = useTarget()
useOutboxTarget(target)
const root = useRoot(target, mainKind(target))
const nats = useNats()

function sourceOf(stream: string, options: Partial<NatsSourceOptions> = {}) {
  return natsSource<{ n: number }>({
    servers: nats.url,
    stream,
    consumer: 'billing',
    declare: {},
    ...options,
  })
}

/** The number of effects of each message, by how often it occurs. */
async function effectCounts(name: string): Promise<Record<string, number>> {
  const rows = await target.sql(
    'select name, count(*)::int as n from effects where name like ? group by name',
    [`${name} %`],
  )
  const counts: Record<string, number> = {}
  for (const { n } of rows) counts[String(n)] = (counts[String(n)] ?? 0) + 1
  return counts
}

async function unsettledOf(stream: string, consumer = 'billing'): Promise<number> {
  const { num_pending: unseen, num_ack_pending: unsettled } = await nats.manager.consumers.info(
    stream,
    consumer,
  )
  return unseen + unsettled
}

async function sendNumbers(stream: string, count: number, keys = 0): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    const key = keys > 0 ? `key ${n % keys}` : undefined
    await nats.send(`${stream}.a`, [`m${n}`], JSON.stringify({ n }), key)
  }
}

test('C1 C6 C24 the connection breaks again and again: each message has one effect', async () => {
  const between = await nats.network()
  const stream = await nats.stream()
  const name = `consumer-${randomUUID()}`
  const events: ConsumerUnderTest['events'] = []
  const consumer = createConsumer({
    source: sourceOf(stream, { servers: urlAt(between.address), declare: { ackWaitMs: 2000 } }),
    inbox: createInbox({ database: root.database, consumer: name }),
    deadLetters: nats.publisher(),
    deadLetterTopic: 'dead',
    concurrency: 4,
    logger: false,
    retry: { attempts: 1000, delayMs: () => 1 },
    handler: async (tx, { payload }) => {
      await target.effect(tx, `${name} ${payload.n}`)
      await new Promise((resolve) => setTimeout(resolve, 2))
    },
  })
  listen(consumer, events)
  onTestFinished(() => consumer.stop())
  await sendNumbers(stream, 300)
  await consumer.start()
  const handled = (): number =>
    new Set(events.flatMap(({ event, id }) => (event === 'handled' ? [id] : []))).size
  for (const point of [50, 100, 150, 200]) {
    await until(
      async () => handled() >= point,
      () => `${point} handled: ${handled()}`,
    )
    between.cut()
  }
  await until(
    async () => handled() === 300 && consumer.figures.inHand === 0,
    () => `300 handled: ${handled()}`,
  )
  await consumer.stop()
  expect(events.filter(({ event }) => event === 'dead-lettered' || event === 'error')).toEqual([])
  expect(await effectCounts(name)).toEqual({ 1: 300 })
  await until(
    async () => (await unsettledOf(stream)) === 0,
    () => 'all are accepted',
  )
})

test('C24 the consumer is deleted while it is in use: it is created again, and no message is lost', async () => {
  const stream = await nats.stream()
  const handled = new Set<string>()
  const consumer = createConsumer({
    source: sourceOf(stream),
    name: 'billing',
    deadLetters: nats.publisher(),
    deadLetterTopic: 'dead',
    logger: false,
    handler: ({ id }) => void handled.add(id),
  })
  onTestFinished(() => consumer.stop())
  const failures: unknown[] = []
  consumer.on('unavailable', ({ error }) => failures.push(error))
  await consumer.start()
  await sendNumbers(stream, 3)
  await until(
    async () => handled.size === 3,
    () => `3 handled: ${handled.size}`,
  )
  await nats.manager.consumers.delete(stream, 'billing')
  await nats.send(`${stream}.a`, ['later'])
  await until(
    async () => handled.has('later'),
    () => 'the later message is handled',
  )
  expect(String(failures[0])).toContain('the consumer or its stream is gone')
})

test('C10 C11 what fails for good, and what fails too often, becomes a dead letter on its subject, as it was received', async () => {
  const stream = await nats.stream()
  const dead = await nats.stream()
  const take = await nats.log(dead)
  const attempts: Record<string, number[]> = {}
  const consumer = createConsumer({
    source: sourceOf(stream),
    name: 'billing',
    deadLetters: nats.publisher(),
    deadLetterTopic: `${dead}.letters`,
    logger: false,
    retry: { attempts: 3, delayMs: () => 5 },
    handler: ({ id }, { deliveries }) => {
      ;(attempts[id] ??= []).push(deliveries)
      if (id === 'never') throw new PermanentError('never')
      if (id === 'often') throw new Error('again')
    },
  })
  onTestFinished(() => consumer.stop())
  await nats.send(`${stream}.a`, ['never', 'often', 'good'], '{"n":1}', 'key')
  await nats.send(`${stream}.a`, ['broken'], '{"n"')
  await consumer.start()
  await until(
    async () => (await unsettledOf(stream)) === 0,
    () => 'all have ended',
  )
  expect(attempts).toEqual({ never: [1], often: [1, 2, 3], good: [1] })
  const letters = await take()
  expect(idsOf(letters).toSorted()).toEqual(['broken', 'never', 'often'])
  const never = letters.find((letter) => letter.headers?.get('txbox-id') === 'never')
  expect(never?.string()).toBe('{"n":1}')
  expect(never?.headers?.get('txbox-key')).toBe('key')
  expect(never?.headers?.get('txbox-error')).toContain('never')
  expect(never?.headers?.get('txbox-source')).toBe(`nats ${stream}/billing`)
})

test('C10 a dead letter is stored also if the stream of its message takes it, within the window of duplicates', async () => {
  const stream = await nats.stream()
  const take = await nats.log(stream)
  const publisher = nats.publisher()
  const message = outboxMessage({ topic: `${stream}.orders`, payload: Buffer.from('{"n":1}') })
  await publisher.publish([message], { signal: signal() })
  const consumer = createConsumer({
    source: sourceOf(stream, { declare: { filterSubjects: [`${stream}.orders`] } }),
    name: 'billing',
    deadLetters: publisher,
    deadLetterTopic: `${stream}.dead`,
    logger: false,
    handler: () => {
      throw new PermanentError('never')
    },
  })
  onTestFinished(() => consumer.stop())
  await consumer.start()
  await until(
    async () => (await unsettledOf(stream)) === 0,
    () => 'it has ended',
  )
  const stored = await take()
  expect(stored.map(({ subject }) => subject)).toEqual([`${stream}.orders`, `${stream}.dead`])
  expect(idsOf(stored)).toEqual([message.id, message.id])
})

test('C11 C22 retries that wait in JetStream for want of room keep their counts', async () => {
  const stream = await nats.stream()
  const seen: Record<string, number[]> = {}
  const consumer = createConsumer({
    source: sourceOf(stream),
    name: 'billing',
    concurrency: 2,
    prefetch: 4,
    deadLetters: nats.publisher(),
    deadLetterTopic: 'dead',
    logger: false,
    retry: { attempts: 10, delayMs: () => 150 },
    handler: ({ id }, { deliveries }) => {
      const own = (seen[id] ??= [])
      own.push(deliveries)
      if (own.length < 4) throw new Error('again')
    },
  })
  onTestFinished(() => consumer.stop())
  await sendNumbers(stream, 20)
  await consumer.start()
  await until(
    async () => (await unsettledOf(stream)) === 0,
    () => JSON.stringify(seen),
  )
  expect(Object.values(seen)).toEqual(Array.from({ length: 20 }, () => [1, 2, 3, 4]))
})

test('C21 a handler that works for longer than ack_wait keeps its message', async () => {
  const stream = await nats.stream()
  const runs: string[] = []
  const consumer = createConsumer({
    source: sourceOf(stream, { declare: { ackWaitMs: 500 } }),
    name: 'billing',
    deadLetters: nats.publisher(),
    deadLetterTopic: 'dead',
    logger: false,
    handler: async ({ id }) => {
      runs.push(id)
      await new Promise((resolve) => setTimeout(resolve, 1500))
    },
  })
  onTestFinished(() => consumer.stop())
  await consumer.start()
  await nats.send(`${stream}.a`, ['long'])
  await until(
    async () => runs.length > 0 && (await unsettledOf(stream)) === 0,
    () => 'it is accepted',
  )
  expect(runs).toEqual(['long'])
})

test('C22 a consumer of its own handles the messages of each key in order, although some fail', async () => {
  const stream = await nats.stream()
  const order: number[] = []
  const failed = new Set<number>()
  const consumer = createConsumer({
    source: sourceOf(stream),
    name: 'billing',
    concurrency: 8,
    deadLetters: nats.publisher(),
    deadLetterTopic: 'dead',
    logger: false,
    retry: { attempts: 10, delayMs: () => 5 },
    handler: ({ payload: { n } }) => {
      if (n % 7 === 0 && !failed.has(n)) {
        failed.add(n)
        throw new Error('again')
      }
      order.push(n)
    },
  })
  onTestFinished(() => consumer.stop())
  await sendNumbers(stream, 200, 10)
  await consumer.start()
  await until(
    async () => order.length === 200,
    () => `200 handled: ${order.length}`,
  )
  for (let key = 0; key < 10; key += 1) {
    const own = order.filter((n) => n % 10 === key)
    expect(own).toEqual(own.toSorted((a, b) => a - b))
  }
})

test('a source of NATS needs deadLetters', () => {
  const options: Partial<ConsumerOptions<never>> = { source: sourceOf('orders') as never, name: 'billing' }
  expect(() => createConsumer({ ...options, handler: () => undefined } as never)).toThrow(/deadLetters/)
})
