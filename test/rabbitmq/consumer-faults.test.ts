import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { PermanentError, RetryLaterError, createConsumer, type Delivery } from '@txbox/consumer'
import { createInbox } from '@txbox/inbox'
import { rabbitmqPublisher, rabbitmqSource } from '@txbox/rabbitmq'
import { listen, type ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { randomFrom } from '../support/worlds/random.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { until } from '../support/worlds/until.ts'
import { useBroker } from './broker-under-test.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const broker = useBroker()
const root = useRoot(target, mainKind(target))

async function send(
  queue: string,
  count: number,
  headers: (n: number) => object = () => ({}),
): Promise<void> {
  const channel = await broker.confirmChannel()
  for (let n = 0; n < count; n += 1) {
    const options = { messageId: `m${n}`, headers: headers(n), persistent: true }
    channel.sendToQueue(queue, Buffer.from(JSON.stringify({ n })), options)
  }
  await channel.waitForConfirms()
  await channel.close()
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

for (const type of ['quorum', 'classic'] as const) {
  test(`C1 C6 C24 the connection to a ${type} queue breaks again and again: each message has one effect, and no stale settlement is sent`, async () => {
    const between = await UnreliableNetwork.to(broker.address)
    onTestFinished(() => between.close())
    const queue = await broker.queue({ type })
    const name = `consumer-${randomUUID()}`
    const events: ConsumerUnderTest['events'] = []
    const consumer = createConsumer({
      source: rabbitmqSource<{ n: number }>({
        url: broker.urlAt(between.address),
        queue,
        keepsRejected: true,
        countsDeliveries: type === 'quorum',
      }),
      inbox: createInbox({ database: root.database, consumer: name }),
      logger: false,
      retry: { attempts: 1000, delayMs: () => 1 },
      handler: async (tx, { payload }) => {
        await target.effect(tx, `${name} ${payload.n}`)
        await new Promise((resolve) => setTimeout(resolve, 2))
      },
    })
    listen(consumer, events)
    onTestFinished(() => consumer.stop())
    await send(queue, 300)
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
    // A settlement with the tag of another channel would close the channel: one more failure.
    expect(events.filter(({ event }) => event === 'unavailable').length).toBe(4)
    expect(events.filter(({ event }) => event === 'lost').length).toBeGreaterThan(0)
    expect(events.filter(({ event }) => event === 'dead-lettered' || event === 'error')).toEqual([])
    expect(await effectCounts(name)).toEqual({ 1: 300 })
    await until(
      async () => (await broker.channel.checkQueue(queue)).messageCount === 0,
      () => 'the queue is empty',
    )
  })
}

test('C1 the answer of the broker is waited for unless a redelivery would be recognized', async () => {
  const between = await UnreliableNetwork.to(broker.address)
  onTestFinished(() => between.close())
  const queue = await broker.queue({ type: 'quorum' })
  const source = rabbitmqSource({ url: broker.urlAt(between.address), queue, keepsRejected: true })
  const opened = await source.open({ prefetch: 2, failed: () => undefined })
  onTestFinished(() => opened.close())
  await send(queue, 2)
  const deliveries: Delivery[] = []
  while (deliveries.length < 2) {
    deliveries.push(...(await opened.receive(2, { signal: new AbortController().signal })))
  }
  const [recorded, other] = deliveries
  between.freeze()
  let isAnswered = false
  await recorded!.accept({ recorded: true })
  const accepting = other!.accept().then(() => (isAnswered = true))
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(isAnswered).toBe(false)
  between.thaw()
  await accepting
  await opened.close()
  expect((await broker.channel.checkQueue(queue)).messageCount).toBe(0)
})

test('C1 an acceptance that meets a broken connection is no error: the message is delivered again', async () => {
  const between = await UnreliableNetwork.to(broker.address)
  onTestFinished(() => between.close())
  const queue = await broker.queue({ type: 'quorum' })
  const source = rabbitmqSource({ url: broker.urlAt(between.address), queue, keepsRejected: true })
  const failures: unknown[] = []
  const opened = await source.open({ prefetch: 1, failed: (error) => failures.push(error) })
  await send(queue, 1)
  const [delivery] = await opened.receive(1, { signal: new AbortController().signal })
  await delivery!.accept({ recorded: true })
  between.cut()
  await until(
    async () => failures.length === 1,
    () => 'the connection is lost',
  )
  await opened.close()
  const again = await source.open({ prefetch: 1, failed: () => undefined })
  onTestFinished(() => again.close())
  const [redelivered] = await again.receive(1, { signal: new AbortController().signal })
  expect(redelivered).toMatchObject({ message: { id: 'm0' }, deliveries: 2 })
})

test('C24 while the broker is down the consumer is unavailable, and it continues when the broker is back', async () => {
  const between = await UnreliableNetwork.to(broker.address)
  onTestFinished(() => between.close())
  const queue = await broker.queue({ type: 'quorum' })
  await between.down()
  const handled: string[] = []
  const consumer = createConsumer({
    source: rabbitmqSource({ url: broker.urlAt(between.address), queue, keepsRejected: true }),
    name: 'orders',
    logger: false,
    handler: ({ id }) => void handled.push(id),
  })
  onTestFinished(() => consumer.stop())
  const failures: unknown[] = []
  consumer.on('unavailable', ({ error }) => failures.push(error))
  await consumer.start()
  expect(String(failures[0])).toContain('ECONNREFUSED')
  await between.up()
  await send(queue, 3)
  await until(
    async () => handled.length === 3,
    () => `3 handled: ${handled.join()}`,
  )
})

test('C18 the broker keeps the messages for which the consumer has no room', async () => {
  const queue = await broker.queue({ type: 'quorum' })
  await send(queue, 50)
  const consumer = createConsumer({
    source: rabbitmqSource({ url: broker.url, queue, keepsRejected: true }),
    name: 'orders',
    concurrency: 2,
    prefetch: 6,
    logger: false,
    handler: () => new Promise(() => undefined),
  })
  onTestFinished(() => consumer.stop({ timeoutMs: 0 }))
  await consumer.start()
  await until(
    async () => consumer.figures.inHand === 6,
    () => JSON.stringify(consumer.figures),
  )
  expect(consumer.figures).toEqual({ inHand: 6, running: 2, waiting: 4, retrying: 0 })
  expect((await broker.channel.checkQueue(queue)).messageCount).toBe(44)
})

test('C1 C10 C11 C12 C22 1,000 messages with random verdicts: each is handled once or becomes a dead letter, and keys stay in order', async () => {
  const queue = await broker.queue({ type: 'quorum' })
  const graveyard = await broker.queue()
  const name = `consumer-${randomUUID()}`
  const next = randomFrom(7)
  const publisher = rabbitmqPublisher({ url: broker.url, exchange: '' })
  onTestFinished(() => publisher.close?.())
  const hopeless = (n: number): boolean => n % 10 === 3
  const order: number[] = []
  const consumer = createConsumer({
    source: rabbitmqSource<{ n: number }>({ url: broker.url, queue, countsDeliveries: true }),
    inbox: createInbox({ database: root.database, consumer: name }),
    deadLetters: publisher,
    deadLetterTopic: graveyard,
    concurrency: 8,
    logger: false,
    retry: { attempts: 50, delayMs: () => next() * 5 },
    handler: async (tx, { payload: { n } }) => {
      await target.effect(tx, `${name} ${n}`)
      if (hopeless(n)) throw new PermanentError('never')
      const verdict = next()
      if (verdict < 0.1) throw new Error('failed')
      if (verdict < 0.2) throw new RetryLaterError({ retryAfterMs: next() * 100 })
    },
  })
  onTestFinished(() => consumer.stop())
  const ends: string[] = []
  consumer.on('handled', ({ message }) => {
    ends.push(message.id)
    order.push(message.payload.n)
  })
  consumer.on('dead-lettered', ({ message }) => void ends.push(message.id))
  await send(queue, 1000, (n) => ({ 'txbox-key': `key ${n % 20}` }))
  await consumer.start()
  await until(
    async () => ends.length >= 1000,
    () => `1,000 ends: ${ends.length} ${JSON.stringify(consumer.figures)}`,
    50_000,
  )
  await consumer.stop()
  expect(new Set(ends).size).toBe(1000)
  expect(await effectCounts(name)).toEqual({ 1: 900 })
  const letters = await broker.take(graveyard)
  expect(letters.length).toBe(100)
  expect(letters[0]?.properties.headers).toMatchObject({
    'txbox-error': expect.stringMatching(/^never \(PermanentError at /),
    'txbox-source': `rabbitmq ${queue}`,
  })
  for (let key = 0; key < 20; key += 1) {
    const numbers = order.filter((n) => n % 20 === key)
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b))
  }
})

test('C1 C2 a consumer that is killed again and again loses nothing and doubles no effect', async () => {
  const queue = await broker.queue({ type: 'quorum' })
  const name = `consumer-${randomUUID()}`
  await send(queue, 400)
  const effects = async (): Promise<number> =>
    Object.values(await effectCounts(name)).reduce((a, b) => a + b, 0)
  const file = path.join(import.meta.dirname, 'programs', 'consumer.mjs')
  const env = {
    ...process.env,
    DATABASE_URL: outbox.url(),
    BROKER_URL: broker.url,
    QUEUE: queue,
    CONSUMER: name,
  }
  for (const point of [40, 120, 200, 280, 400]) {
    const child = fork(file, [], { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    const ended = new Promise((resolve) => void child.once('exit', resolve))
    onTestFinished(() => void child.kill('SIGKILL'))
    await until(
      async () => (await effects()) >= point,
      async () => `${point} effects: ${await effects()}`,
    )
    // At the end the last deliveries may still have to be accepted.
    if (point === 400) child.send('stop')
    else child.kill('SIGKILL')
    await ended
  }
  expect(await effectCounts(name)).toEqual({ 1: 400 })
  expect((await broker.channel.checkQueue(queue)).messageCount).toBe(0)
})
