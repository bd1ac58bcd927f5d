import { createHash, randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { OutboxMessage } from '@txbox/rabbitmq'
import { outboxMessage, outboxMessages, publish, reason, summary, useBroker } from './broker-under-test.ts'

const broker = useBroker()

/** The time of creation of the messages, as a header. AMQP's own property has whole seconds. */
const TIME = { 'txbox-time': '2026-03-04T05:06:07.890Z' }

describe('payloads', () => {
  // A frame has 131,072 bytes, 8 of which are overhead; below some 2 KiB a message is written in one piece.
  const frame = 131_064
  const payloads: Record<string, Buffer> = {
    empty: Buffer.alloc(0),
    'a NUL': Buffer.from([0]),
    'each byte there is': Buffer.from(Array.from({ length: 256 }, (_, n) => n)),
    text: Buffer.from('Zoë 日本 👋 \u0000 \uFEFF', 'utf8'),
    'the middle of a larger buffer': Buffer.from('--{"n":1}--').subarray(2, 9),
    '2 KiB': randomBytes(2048),
    'exactly a frame': randomBytes(frame),
    'a byte more than a frame': randomBytes(frame + 1),
    '1 MB': randomBytes(1_000_000),
    '10 MiB': randomBytes(10_485_760),
  }

  for (const type of ['classic', 'quorum'] as const) {
    test(`O13 payloads are read from a ${type} queue unchanged, to the byte`, async () => {
      const queue = await broker.queue({ type })
      const publisher = broker.publisher({ exchange: '' })
      const messages = Object.entries(payloads).map(([id, payload]) =>
        outboxMessage({ id, topic: queue, payload, contentType: 'application/octet-stream' }),
      )
      expect(new Set(summary(await publish(publisher, messages)))).toEqual(new Set(['accepted']))
      const taken = new Map(
        (await broker.take(queue)).map(({ content, properties }) => [String(properties.messageId), content]),
      )
      expect([...taken.keys()].sort()).toEqual(Object.keys(payloads).sort())
      for (const [id, payload] of Object.entries(payloads)) {
        expect({ id, bytes: taken.get(id)?.length, hash: sha256(taken.get(id)) }).toEqual({
          id,
          bytes: payload.length,
          hash: sha256(payload),
        })
      }
    })
  }

  function sha256(bytes: Buffer | undefined): string {
    return createHash('sha256')
      .update(bytes ?? 'missing')
      .digest('hex')
  }
})

describe('properties of a message', () => {
  const full: Partial<OutboxMessage> = {
    id: '01234567-89ab-7def-8123-456789abcdef',
    type: 'order.paid',
    key: 'order-42',
    correlationId: 'checkout-7',
    contentType: 'application/vnd.shop+json',
    headers: { tenant: 'Zoë', empty: '', 日本: '👋', ['x'.repeat(255)]: 'y'.repeat(10_000) },
  }

  test('the message is persistent, and its fields are properties of AMQP', async () => {
    const exchange = await broker.exchange()
    const queue = await broker.queue()
    await broker.channel.bindQueue(queue, exchange, 'orders.#')
    await publish(broker.publisher({ exchange }), [outboxMessage({ ...full, topic: 'orders.paid' })])
    const [taken] = await broker.take(queue)
    expect(taken?.fields).toMatchObject({ exchange, routingKey: 'orders.paid' })
    expect(taken?.properties).toMatchObject({
      deliveryMode: 2,
      messageId: full.id,
      type: 'order.paid',
      correlationId: 'checkout-7',
      contentType: 'application/vnd.shop+json',
      timestamp: Date.parse('2026-03-04T05:06:07Z') / 1000,
      expiration: undefined,
    })
    expect(taken?.properties.headers).toEqual({ ...full.headers, 'txbox-key': 'order-42', ...TIME })
  })

  test('missing fields of a message are left out', async () => {
    const queue = await broker.queue()
    await publish(broker.publisher({ exchange: '' }), outboxMessages(queue, 1))
    const [taken] = await broker.take(queue)
    expect(taken?.properties).toMatchObject({ type: undefined, correlationId: undefined, headers: TIME })
  })

  test('each message has its own headers and its own key, however many are sent together', async () => {
    const queue = await broker.queue()
    const messages = Array.from({ length: 300 }, (_, n) => {
      const all = { tenant: `tenant ${n}`, trace: `trace ${n}` }
      // Names that objects have themselves are headers like others. The publisher sets its own headers.
      const odd = { constructor: 'c', toString: 's', 7: 'x', 'txbox-key': 'mine', 'txbox-time': 'now' }
      const headers = [{}, { tenant: all.tenant }, all, odd][n % 4]!
      return outboxMessage({ topic: queue, headers, ...(n % 3 === 0 ? {} : { key: `key ${n}` }) })
    })
    expect(new Set(summary(await publish(broker.publisher({ exchange: '' }), messages)))).toEqual(
      new Set(['accepted']),
    )
    const taken = new Map(
      (await broker.take(queue)).map(({ properties }) => [properties.messageId, properties.headers]),
    )
    for (const { id, key, headers } of messages) {
      expect(taken.get(id)).toEqual({
        ...headers,
        ...(key === undefined ? {} : { 'txbox-key': key }),
        ...TIME,
      })
    }
  })

  test('O2 a resend is identical', async () => {
    const queue = await broker.queue()
    const message = outboxMessage({ ...full, topic: queue, payload: randomBytes(100) })
    await publish(broker.publisher({ exchange: '' }), [message])
    await publish(broker.publisher({ exchange: '' }), [{ ...message, attempt: 2 }])
    const [first, second] = await broker.take(queue)
    expect(first?.properties.messageId).toBe(full.id)
    expect(second?.properties).toEqual(first?.properties)
    expect(second?.content.equals(message.payload)).toBe(true)
  })
})

describe('results', () => {
  test('O11 a message without a queue is rejected for another attempt, with advice; the others are published', async () => {
    const exchange = await broker.exchange()
    const queue = await broker.queue()
    await broker.channel.bindQueue(queue, exchange, 'bound')
    const messages = ['bound', 'unbound', 'bound'].map((topic) => outboxMessage({ topic }))
    const results = await publish(broker.publisher({ exchange }), messages)
    expect(summary(results)).toEqual(['accepted', 'rejected for now', 'accepted'])
    expect(await broker.ids(queue)).toEqual([messages[0]?.id, messages[2]?.id])
    expect(reason(results[1])).toContain(messages[1]?.id)
    expect(reason(results[1])).toContain(
      `no queue is bound to exchange '${exchange}' for routing key 'unbound'`,
    )
    expect(reason(results[1])).toMatch(/Bind one/)
  })

  test('O11 on the default exchange, the topic is the name of a queue, which may not exist', async () => {
    const queue = await broker.queue()
    const missing = broker.name('queue')
    const messages = [queue, missing].map((topic) => outboxMessage({ topic }))
    const results = await publish(broker.publisher({ exchange: '' }), messages)
    expect(summary(results)).toEqual(['accepted', 'rejected for now'])
    expect(reason(results[1])).toContain(`no queue '${missing}'`)
  })

  test('O11 an alternate exchange accepts messages without a bound queue', async () => {
    const alternateExchange = await broker.exchange('fanout')
    const exchange = await broker.exchange('topic', { alternateExchange })
    const queue = await broker.queue()
    await broker.channel.bindQueue(queue, alternateExchange, '')
    const messages = outboxMessages('unbound', 3)
    const publisher = broker.publisher({ exchange, assertExchange: false })
    expect(summary(await publish(publisher, messages))).toEqual(['accepted', 'accepted', 'accepted'])
    expect(await broker.ids(queue)).toEqual(messages.map(({ id }) => id))
  })

  for (const type of ['classic', 'quorum'] as const) {
    test(`O15 a message that a full ${type} queue refuses is rejected without counting; the others are published`, async () => {
      const full = await broker.queue({
        type,
        arguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish' },
      })
      const queue = await broker.queue()
      const publisher = broker.publisher({ exchange: '' })
      // A quorum queue refuses messages only when it has noticed that it is full.
      await expect
        .poll(async () => summary(await publish(publisher, outboxMessages(full, 1))), { timeout: 10_000 })
        .toEqual(['rejected for now'])
      const results = await publish(
        publisher,
        [full, queue].map((topic) => outboxMessage({ topic })),
      )
      expect(summary(results)).toEqual(['rejected for now', 'accepted'])
      expect(results[0]).toMatchObject({ counted: false })
      expect(reason(results[0])).toContain(`routing key '${full}', is full or failed`)
      await broker.take(full)
      await expect
        .poll(async () => summary(await publish(publisher, outboxMessages(full, 1))), { timeout: 10_000 })
        .toEqual(['accepted'])
    })
  }

  test('1,000 messages have their results in the order of the messages, whatever the results are', async () => {
    const queue = await broker.queue({ type: 'quorum' })
    const full = await broker.queue({ arguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish' } })
    const publisher = broker.publisher({ exchange: '' })
    await publish(publisher, outboxMessages(full, 1))
    const kinds = [queue, broker.name('missing'), queue, full, queue]
    const messages = Array.from({ length: 1000 }, (_, n) =>
      outboxMessage({
        topic: kinds[n % kinds.length]!,
        ...(n % 100 === 0 && { type: 'ü'.repeat(128) }),
      }),
    )
    const results = await publish(publisher, messages)
    const expected = messages.map(({ topic, type }) => {
      if (type !== undefined) return 'rejected for good'
      return topic === queue ? 'accepted' : 'rejected for now'
    })
    expect(summary(results)).toEqual(expected)
    for (const [n, { id }] of messages.entries()) {
      if (results[n]?.status === 'rejected') expect(reason(results[n])).toContain(id)
    }
    const accepted = messages.filter((_, n) => results[n]?.status === 'accepted').map(({ id }) => id)
    expect(await broker.ids(queue)).toEqual(accepted)
  })

  test('a call without messages has no results, and opens no connection', async () => {
    expect(await publish(broker.publisher({ url: 'amqp://127.0.0.1:1' }), [])).toEqual([])
  })
})

describe('one id in several messages in flight', () => {
  test('each message has its own result, in one call', async () => {
    const queue = await broker.queue()
    const missing = broker.name('queue')
    const publisher = broker.publisher({ exchange: '' })
    const topics = [queue, missing, missing, queue, missing, queue]
    const results = await publish(
      publisher,
      topics.map((topic) => outboxMessage({ id: 'the same', topic })),
    )
    expect(summary(results)).toEqual(
      topics.map((topic) => (topic === queue ? 'accepted' : 'rejected for now')),
    )
    expect(await broker.ids(queue)).toEqual(['the same', 'the same', 'the same'])
  })

  // A returned message is identified by id and routing key; headers are the only other property that brokers route by.
  test('O11 if messages differ only in headers, the one without a queue is rejected, and does not count as published', async () => {
    const exchange = broker.exchangeName()
    const publisher = broker.publisher({ exchange, exchangeType: 'headers' })
    await broker.channel.assertExchange(exchange, 'headers', { durable: true })
    const queue = await broker.queue()
    await broker.channel.bindQueue(queue, exchange, '', { wanted: 'yes', 'x-match': 'all' })
    const wanted = ['yes', 'no', 'yes', 'no', 'no']
    const results = await publish(
      publisher,
      wanted.map((value) => outboxMessage({ id: 'the same', topic: 'orders', headers: { wanted: value } })),
    )
    for (const [n, value] of wanted.entries())
      if (value === 'no') expect(summary(results)[n]).toBe('rejected for now')
    expect((await broker.ids(queue)).length).toBe(2)
    const again = outboxMessage({ id: 'the same', topic: 'orders', headers: { wanted: 'yes' } })
    expect(summary(await publish(publisher, [again]))).toEqual(['accepted'])
  })

  test('each message has its own result, in overlapping calls', async () => {
    const queue = await broker.queue()
    const missing = broker.name('queue')
    const publisher = broker.publisher({ exchange: '' })
    const ids = Array.from({ length: 50 }, (_, n) => `id ${n}`)
    const calls = [queue, missing, queue, missing].map((topic) => ({
      topic,
      results: publish(
        publisher,
        ids.map((id) => outboxMessage({ id, topic })),
      ),
    }))
    for (const { topic, results } of calls) {
      const expected = topic === queue ? 'accepted' : 'rejected for now'
      expect(summary(await results)).toEqual(ids.map(() => expected))
    }
    expect((await broker.ids(queue)).toSorted()).toEqual([...ids, ...ids].toSorted())
  })
})
