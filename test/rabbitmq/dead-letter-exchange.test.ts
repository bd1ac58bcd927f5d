import type { Options } from 'amqplib'
import { expect, onTestFinished, test } from 'vitest'
import { PermanentError, createConsumer, type Logger } from '@txbox/consumer'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { listen, type ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { until } from '../support/worlds/until.ts'
import { useBroker } from './broker-under-test.ts'

const broker = useBroker()

/** A consumer of a new queue with a dead letter exchange. */
async function consumerOf(
  handler: (message: { id: string }) => unknown,
  how: { type?: 'quorum' | 'classic'; exchangeType?: string; isMissing?: boolean; options?: object } = {},
) {
  const { type = 'quorum', exchangeType = 'fanout', isMissing = false } = how
  const queue = broker.name('queue')
  broker.deleteAfterwards(queue)
  const exchange = isMissing ? broker.exchangeName() : await broker.exchange(exchangeType)
  const graveyard = await broker.queue()
  const events: ConsumerUnderTest['events'] = []
  const consumer = createConsumer({
    source: rabbitmqSource({ url: broker.url, queue, declare: { type, deadLetterExchange: exchange } }),
    name: 'orders',
    logger: false,
    handler,
    ...how.options,
  })
  listen(consumer, events)
  onTestFinished(() => consumer.stop())
  await consumer.start()
  const count = (event: string): number => events.filter((one) => one.event === event).length
  return {
    ...{ queue, exchange, graveyard, consumer, events, count },
    bind: (pattern = '') => broker.channel.bindQueue(graveyard, exchange, pattern),
    send: (options: Options.Publish) => broker.channel.sendToQueue(queue, Buffer.from('{}'), options),
    heard: (event: string, times = 1) =>
      until(
        async () => count(event) >= times,
        () =>
          `${times} ${event}: ${JSON.stringify(events.map((one) => [one.event, String(Reflect.get(one.value, 'error'))]))}`,
      ),
    left: async () => (await broker.channel.checkQueue(queue)).messageCount,
  }
}

function placeOrder(): never {
  throw new TypeError('the order has no total')
}

for (const type of ['quorum', 'classic'] as const) {
  test(`C10 a dead letter of a ${type} queue has the original routing key, the reason, the count and the source`, async () => {
    const subject = await consumerOf(placeOrder, {
      type,
      exchangeType: 'topic',
      options: { retry: { attempts: 3, delayMs: () => 1 } },
    })
    const orders = await broker.exchange('topic')
    await broker.channel.bindQueue(subject.queue, orders, 'order.*')
    await subject.bind('order.paid')
    broker.channel.publish(orders, 'order.paid', Buffer.from('{}'), {
      ...{ messageId: 'm1', priority: 3, replyTo: 'r', appId: 'shop', timestamp: 1_700_000_000 },
      headers: { tenant: 'a', n: 1.5, list: [1, 'b'] },
    })
    await subject.heard('dead-lettered')
    const [letter] = await broker.take(subject.graveyard)
    expect(letter!.fields.routingKey).toBe('order.paid')
    expect(letter!.properties).toMatchObject({
      ...{ messageId: 'm1', priority: 3, replyTo: 'r', appId: 'shop', timestamp: 1_700_000_000 },
    })
    expect(letter!.properties.headers).toEqual({
      ...{ tenant: 'a', n: 1.5, list: [1, 'b'] },
      'txbox-error': expect.stringMatching(
        /^the order has no total \(TypeError at .*placeOrder.*dead-letter-exchange\.test\.ts:\d+:\d+\)\)$/,
      ),
      'txbox-deliveries': '3',
      'txbox-source': `rabbitmq ${subject.queue}`,
    })
    await until(
      async () => (await subject.left()) === 0,
      () => 'messages in the queue: 0',
    )
    expect(subject.count('error')).toBe(0)
  })

  test(`C10 an exchange that routes a dead letter of a ${type} queue nowhere refuses it for now: the message waits, uncounted`, async () => {
    const subject = await consumerOf(placeOrder, {
      type,
      options: { retry: { attempts: 1, delayMs: () => 1 } },
    })
    subject.send({ messageId: 'm1' })
    await subject.heard('unavailable', 3)
    expect(subject.count('dead-lettered')).toBe(0)
    expect(subject.consumer.figures.inHand).toBe(1)
    await subject.bind()
    await subject.heard('dead-lettered')
    const [letter] = await broker.take(subject.graveyard)
    expect(letter!.properties.headers).toMatchObject({ 'txbox-deliveries': '1' })
    await until(
      async () => (await subject.left()) === 0,
      () => 'messages in the queue: 0',
    )
  })

  test(`C10 C23 a dead letter of a ${type} queue that is refused when the consumer stops remains in its queue`, async () => {
    const subject = await consumerOf(placeOrder, {
      type,
      options: { retry: { attempts: 1, delayMs: () => 1 } },
    })
    subject.send({ messageId: 'm1' })
    await subject.heard('unavailable')
    await subject.consumer.stop()
    await until(
      async () => (await subject.left()) === 1,
      () => 'messages in the queue: 1',
    )
  })
}

test('C10 a missing dead letter exchange refuses for now', async () => {
  const subject = await consumerOf(placeOrder, {
    isMissing: true,
    options: { retry: { attempts: 1, delayMs: () => 1 } },
  })
  subject.send({ messageId: 'm1' })
  await subject.heard('unavailable', 2)
  await broker.channel.assertExchange(subject.exchange, 'fanout')
  await subject.bind()
  await subject.heard('dead-lettered')
  expect(await broker.ids(subject.graveyard)).toEqual(['m1'])
  expect(subject.count('lost')).toBe(0)
})

test('C10 a dead letter does not expire, has no CC that is obeyed, and no sender but the own user', async () => {
  const subject = await consumerOf(
    () => {
      throw new PermanentError('never')
    },
    { exchangeType: 'direct' },
  )
  const copies = await broker.queue()
  await subject.bind(subject.queue)
  await broker.channel.bindQueue(copies, subject.exchange, 'copy')
  const user = new URL(broker.url).username
  subject.send({ messageId: 'm1', expiration: '60000', userId: user, CC: ['copy'], BCC: ['copy'] })
  await subject.heard('dead-lettered')
  const [letter] = await broker.take(subject.graveyard)
  expect(letter!.properties).toMatchObject({ messageId: 'm1', expiration: undefined, userId: user })
  expect(letter!.properties.headers).toMatchObject({ 'txbox-cc': ['copy'] })
  expect(letter!.properties.headers).not.toHaveProperty('CC')
  expect(await broker.take(copies)).toEqual([])
})

test('C10 headers that have no room for the reason: the large ones are left out and named', async () => {
  const subject = await consumerOf(() => {
    throw new PermanentError('never')
  })
  await subject.bind()
  subject.send({ messageId: 'm1', headers: { tenant: 'a', large: 'x'.repeat(65_300) } })
  subject.send({
    messageId: 'm2',
    headers: Object.fromEntries(Array.from({ length: 1624 }, (_, n) => [`h${n}`, 'x'.repeat(30)])),
  })
  await subject.heard('dead-lettered', 2)
  const letters = await broker.take(subject.graveyard)
  const headersOf = (id: string): object | undefined =>
    letters.find(({ properties }) => properties.messageId === id)?.properties.headers
  expect(headersOf('m1')).toEqual({
    tenant: 'a',
    'txbox-left-out': 'headers large',
    'txbox-error': expect.stringMatching(/^never \(PermanentError/),
    'txbox-deliveries': '1',
    'txbox-source': `rabbitmq ${subject.queue}`,
  })
  expect(headersOf('m2')).toMatchObject({
    h0: expect.anything(),
    'txbox-left-out': expect.stringMatching(/^headers h\d+, .* and \d+ more$/),
  })
  await until(
    async () => (await subject.left()) === 0,
    () => 'messages in the queue: 0',
  )
  expect(subject.count('error')).toBe(0)
})

test('C10 N1 twenty deaths for twenty reasons: each has its reason in its dead letter, and a line of its own', async () => {
  const lines: string[] = []
  const logger: Logger = {
    debug: () => undefined,
    info: () => undefined,
    warn: () => undefined,
    error: (_object: object, text: string) => void lines.push(text),
  }
  const subject = await consumerOf(
    ({ id }) => {
      throw new PermanentError(`the reason of ${id}`)
    },
    { options: { logger } },
  )
  await subject.bind()
  const ids = Array.from({ length: 20 }, (_, n) => `m${n}.`)
  for (const messageId of ids) subject.send({ messageId })
  await subject.heard('dead-lettered', 20)
  const letters = await broker.take(subject.graveyard)
  for (const id of ids) {
    const explanation = new RegExp(
      String.raw`the reason of ${id.replace('.', '\\.')} \(PermanentError at .*dead-letter-exchange\.test\.ts:\d+:\d+`,
    )
    const letter = letters.find(({ properties }) => properties.messageId === id)
    expect(letter?.properties.headers?.['txbox-error']).toMatch(explanation)
    expect(lines.filter((line) => line.startsWith(`Message ${id} is a dead letter`))).toMatchObject([
      expect.stringMatching(explanation),
    ])
  }
})
