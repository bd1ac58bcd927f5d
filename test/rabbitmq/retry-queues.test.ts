import type { ConsumeMessage, GetMessage, Options } from 'amqplib'
import { expect, onTestFinished, test } from 'vitest'
import {
  createConsumer,
  type ConsumerContext,
  type Delivery,
  type InboxMessage,
  type Logger,
  type OpenSource,
  type PlainConsumerOptions,
} from '@txbox/consumer'
import { rabbitmqSource, type RabbitmqSourceOptions } from '@txbox/rabbitmq'
import { restoredMessage } from '../../packages/rabbitmq/src/receive/retried-message.ts'
import { listen, type ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { until } from '../support/worlds/until.ts'
import { retryQueuesOf, useBroker } from './broker-under-test.ts'

const broker = useBroker()
const NEVER = new AbortController().signal
/** With these options, each retry leaves the consumer. */
const LEAVING = { holdMs: 0, retry: { attempts: 3, delayMs: () => 100 } }

async function queueOf(type: 'quorum' | 'classic', args: object = {}): Promise<string> {
  const queue = await broker.queue({ type, arguments: args })
  for (const name of retryQueuesOf(queue)) broker.deleteAfterwards(name)
  return queue
}

async function send(queue: string, options: Options.Publish): Promise<void> {
  const channel = await broker.confirmChannel()
  channel.sendToQueue(queue, Buffer.from('{"n":1}'), { persistent: true, ...options })
  await channel.waitForConfirms()
  await channel.close()
}

async function opened(options: Partial<RabbitmqSourceOptions> & { queue: string }): Promise<OpenSource> {
  const source = rabbitmqSource({ url: broker.url, keepsRejected: true, ...options })
  const open = await source.open({ prefetch: 20, failed: () => undefined })
  onTestFinished(() => open.close())
  return open
}

async function next(open: OpenSource): Promise<Delivery> {
  const [delivery] = await open.receive(1, { signal: NEVER })
  return delivery!
}

const later = (delayMs: number, deliveries = 1) => ({ delayMs, deliveries, counted: true, error: undefined })

async function consuming(
  source: Partial<RabbitmqSourceOptions> & { queue: string },
  handler: (message: InboxMessage, context: ConsumerContext) => unknown,
  options: Partial<PlainConsumerOptions> = LEAVING,
): Promise<{ events: ConsumerUnderTest['events']; count: (event: string) => number }> {
  const events: ConsumerUnderTest['events'] = []
  const consumer = createConsumer({
    source: rabbitmqSource({ url: broker.url, keepsRejected: true, ...source }),
    name: 'orders',
    logger: false,
    handler,
    ...options,
  })
  listen(consumer, events)
  onTestFinished(() => consumer.stop({ timeoutMs: 0 }))
  await consumer.start()
  return { events, count: (event) => events.filter((one) => one.event === event).length }
}

for (const type of ['quorum', 'classic'] as const) {
  test(`C11 a message of a ${type} queue comes back from its retry queue as it was received: the handler sees no difference, and the count goes on`, async () => {
    const queue = await queueOf(type)
    const copies = await broker.queue()
    const exchange = await broker.exchange('topic')
    await broker.channel.bindQueue(queue, exchange, 'order.*')
    const seen: { message: InboxMessage; deliveries: number }[] = []
    const { count } = await consuming({ queue }, (message, { deliveries }) => {
      seen.push({ message, deliveries })
      if (seen.length < 3) throw new Error('not yet')
    })
    const headers = {
      'txbox-key': 'k',
      tenant: 'ü',
      'x-delivery-count': 7,
      'x-first-death-queue': 'elsewhere',
      'x-death': [{ queue: 'elsewhere', reason: 'rejected', count: 1, exchange: '', 'routing-keys': ['r'] }],
    }
    // The default exchange would route a copy of each retry to the queue that `CC` names.
    broker.channel.publish(exchange, 'order.paid', Buffer.from('{"n":1}'), {
      ...{ messageId: 'a', type: 'paid', correlationId: 'c', timestamp: 1_700_000_000, appId: 'shop' },
      ...{ contentType: 'application/json', persistent: true, expiration: 60_000, userId: 'guest' },
      ...{ headers, CC: [copies] },
    })
    await until(
      async () => count('handled') === 1,
      () => `it is handled: ${JSON.stringify(seen)}`,
    )
    expect(seen.map(({ deliveries }) => deliveries)).toEqual([1, 2, 3])
    const [first, ...others] = seen.map(({ message }) => message)
    expect(first).toMatchObject({ id: 'a', payload: { n: 1 }, headers: { tenant: 'ü' } })
    // The count is the queue's own, and begins again.
    const { 'x-delivery-count': _, ...unchanged } = first!.headers!
    for (const other of others) {
      const { 'x-delivery-count': own = '0', ...received } = other.headers!
      expect({ ...other, headers: received }).toEqual({ ...first, headers: unchanged })
      expect(own).toBe('0')
    }
    expect(await broker.take(copies)).toEqual([])
  })

  test(`C10 C11 the dead letter of a message that came back to a ${type} queue has its original routing key and headers`, async () => {
    const queue = broker.name('queue')
    for (const name of [queue, ...retryQueuesOf(queue)]) broker.deleteAfterwards(name)
    const deadLetterExchange = await broker.exchange('topic')
    const graveyard = await broker.queue()
    await broker.channel.bindQueue(graveyard, deadLetterExchange, 'order.paid')
    const exchange = await broker.exchange('topic')
    const bindings = [{ exchange, routingKey: 'order.*' }]
    const declare = { type, deadLetterExchange, bindings }
    const { count } = await consuming({ queue, declare, keepsRejected: undefined }, () => {
      throw new Error('never')
    })
    broker.channel.publish(exchange, 'order.paid', Buffer.from('{}'), { messageId: 'a', headers: { h: 'v' } })
    await until(
      async () => count('dead-lettered') === 1,
      () => 'the message is a dead letter',
    )
    const [letter] = await broker.take(graveyard)
    expect(letter!.fields.routingKey).toBe('order.paid')
    expect(letter!.properties.headers).toMatchObject({ h: 'v', 'txbox-deliveries': '3' })
    expect(Object.keys(letter!.properties.headers!).filter((name) => name.startsWith('txbox-retry'))).toEqual(
      [],
    )
  })

  test(`C11 a retry that is in its retry queue, but whose acceptance did not arrive, is delivered twice and not lost: ${type} queue`, async () => {
    const between = await UnreliableNetwork.to(broker.address)
    onTestFinished(() => between.close())
    const queue = await queueOf(type)
    const first = await opened({ queue, url: broker.urlAt(between.address) })
    await send(queue, { messageId: 'a' })
    expect(await (await next(first)).postpone?.(later(100))).toBe(true)
    between.cut()
    const second = await opened({ queue })
    const deliveries = [await next(second), await next(second)]
    expect(deliveries.map(({ message }) => message.id)).toEqual(['a', 'a'])
    expect(deliveries.map((one) => one.deliveries)).toEqual([2, 2])
  })

  test(`C11 a retry queue that was deleted is declared again: ${type} queue`, async () => {
    const queue = await queueOf(type)
    const open = await opened({ queue })
    for (const messageId of ['a', 'b']) {
      await send(queue, { messageId })
      const delivery = await next(open)
      expect(await delivery.postpone?.(later(100))).toBe(true)
      expect((await next(open)).message.id).toBe(messageId)
      await broker.channel.deleteQueue(`${queue}.txbox-retry-1`)
    }
  })
}

test('C11 a delay is rounded up to that of a retry queue, which is a quorum queue and made when it is first needed', async () => {
  const queue = await queueOf('classic')
  const open = await opened({ queue })
  for (const [delayMs, seconds] of [
    [1, 1],
    [1000, 1],
    [1001, 5],
    [30_001, 120],
    [3_600_000, 3600],
    [86_400_000, 3600],
  ] as const) {
    await send(queue, { messageId: `for ${delayMs} ms` })
    expect(await (await next(open)).postpone?.(later(delayMs))).toBe(true)
    const retryQueue = `${queue}.txbox-retry-${seconds}`
    // Another argument would be refused.
    await broker.channel.assertQueue(retryQueue, {
      arguments: {
        'x-queue-type': 'quorum',
        'x-message-ttl': seconds * 1000,
        'x-dead-letter-exchange': '',
        'x-dead-letter-routing-key': queue,
        'x-dead-letter-strategy': 'at-least-once',
        'x-overflow': 'reject-publish',
      },
    })
    await broker.channel.deleteQueue(retryQueue)
  }
})

test('C11 a delay that is longer than that of the last retry queue passes through several, and the handler is not called before its end', async () => {
  const queue = await queueOf('quorum')
  const open = await opened({ queue })
  await send(queue, { messageId: 'a' })
  expect(await (await next(open)).postpone?.(later(1))).toBe(true)
  await until(
    async () => (await broker.channel.checkQueue(`${queue}.txbox-retry-1`)).messageCount === 1,
    () => 'the message waits',
  )
  // The same as after `x-message-ttl` of the queue for an hour, with 900 ms to go.
  const waiting = await broker.channel.get(`${queue}.txbox-retry-1`, { noAck: true })
  const { content, properties } = waiting as GetMessage
  const headers = { ...properties.headers, 'txbox-retry-rest-ms': 900, 'txbox-retry-deliveries': 4 }
  const sentAt = performance.now()
  await send(`${queue}.txbox-retry-1`, { ...properties, headers })
  const delivery = await next(open)
  expect(performance.now() - sentAt).toBeGreaterThan(1900)
  expect(delivery).toMatchObject({ message: { id: 'a' }, deliveries: 5 })
  expect(content.toString()).toBe('{"n":1}')
})

test('C10 a count is believed only of a message that has expired in a retry queue of this queue', () => {
  const isRetryQueue = (name: unknown): boolean => name === 'orders.txbox-retry-1'
  const deaths = (queue: string, reason: string): object => ({ 'x-death': [{ queue, reason }] })
  const counts = [
    {},
    deaths('orders.txbox-retry-1', 'rejected'),
    deaths('other.txbox-retry-1', 'expired'),
    { 'x-death': 'text' },
    { 'x-death': [null] },
    deaths('orders.txbox-retry-1', 'expired'),
  ].map((death) => {
    const headers = { 'txbox-retry-routing-key': 'orders', 'txbox-retry-deliveries': 9, ...death }
    const raw = { fields: {}, properties: { headers }, content: Buffer.alloc(0) }
    return restoredMessage(raw as unknown as ConsumeMessage, isRetryQueue).earlierDeliveries
  })
  expect(counts).toEqual([0, 0, 0, 0, 0, 9])
})

test('C11 a message that has expired in the queue itself before, and was sent there again, comes back', async () => {
  const queue = await queueOf('quorum')
  const open = await opened({ queue })
  // RabbitMQ before 4.0 takes this for a cycle, and drops the message, if the header is sent to the retry queue.
  const death = [{ queue, reason: 'expired', count: 1, exchange: '', 'routing-keys': [queue] }]
  await send(queue, { messageId: 'a', headers: { 'x-death': death } })
  expect(await (await next(open)).postpone?.(later(1))).toBe(true)
  expect(await next(open)).toMatchObject({ message: { id: 'a' }, deliveries: 2 })
})

test('C11 where the retry queue cannot be declared, the consumer holds its retries, and warns once what to change', async () => {
  const queue = await queueOf('quorum')
  // The broker refuses the declaration.
  await broker.channel.assertQueue(`${queue}.txbox-retry-1`, { arguments: { 'x-message-ttl': 5 } })
  const warnings: string[] = []
  const logger: Logger = {
    ...{ debug: () => undefined, info: () => undefined, error: () => undefined },
    warn: (about: object, text: string) => {
      if ('event' in about && about.event === 'source') warnings.push(text)
    },
  }
  const runs: string[] = []
  const { count } = await consuming(
    { queue },
    ({ id }) => {
      runs.push(id)
      if (runs.length <= 10) throw new Error('not yet')
    },
    { retry: { attempts: 3, delayMs: () => 1000 }, holdMs: 2000, logger, prefetch: 10 },
  )
  for (let n = 0; n < 10; n += 1) await send(queue, { messageId: `m${n}` })
  await until(
    async () => count('handled') === 10,
    () => `10 are handled: ${count('handled')}`,
  )
  expect(warnings.length).toBe(1)
  expect(warnings[0]).toContain(`cannot be moved to the queue '${queue}.txbox-retry-1'`)
  expect(warnings[0]).toContain('406')
  expect(warnings[0]).toContain('Delete the queue')
})

test('C22 with a single active consumer, keys that fail in turn keep their order', async () => {
  const queue = broker.name('queue')
  for (const name of [queue, ...retryQueuesOf(queue)]) broker.deleteAfterwards(name)
  const handled: string[] = []
  const failed = new Set<string>()
  const { count } = await consuming(
    { queue, declare: { type: 'quorum', singleActiveConsumer: true } },
    ({ id }) => {
      if (!failed.has(id)) {
        failed.add(id)
        throw new Error('not yet')
      }
      handled.push(id)
    },
    { retry: { attempts: 3, delayMs: () => 150 }, holdMs: 0, prefetch: 10 },
  )
  const ids: string[] = []
  for (let n = 0; n < 60; n += 1) {
    ids.push(`${n}`)
    await send(queue, { messageId: `${n}`, headers: { 'txbox-key': `k${n % 12}` } })
  }
  await until(
    async () => handled.length === 60,
    () => `60 are handled: ${handled.length}`,
  )
  for (let key = 0; key < 12; key += 1) {
    const ofKey = (all: string[]): string[] => all.filter((id) => Number(id) % 12 === key)
    expect(ofKey(handled)).toEqual(ofKey(ids))
  }
  expect(count('order-broken')).toBe(0)
})
