import { randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import type { Options } from 'amqplib'
import { describe, expect, expectTypeOf, test } from 'vitest'
import { InvalidMessageError, fromRabbitmq, type InboxMessage, type RabbitmqDelivery } from '@txbox/rabbitmq'
import { outboxMessage, publish, useBroker } from './broker-under-test.ts'

const broker = useBroker()

/** The delivery that arrives when another program publishes this message. */
async function delivered(content: Buffer, properties: Options.Publish = {}): Promise<RabbitmqDelivery> {
  const queue = await broker.queue()
  broker.channel.sendToQueue(queue, content, { messageId: 'm-1', ...properties })
  const [delivery] = await broker.take(queue)
  if (delivery === undefined) throw new Error('Nothing was delivered.')
  return delivery
}

const json = Buffer.from('{"orderId":"o-1"}')

describe('messages of the publisher', () => {
  for (const type of ['classic', 'quorum'] as const) {
    test(`are read from a ${type} queue unchanged`, async () => {
      const queue = await broker.queue({ type })
      const message = outboxMessage({
        topic: queue,
        id: '01234567-89ab-7def-8123-456789abcdef',
        type: 'order.paid',
        key: 'order-42',
        correlationId: 'checkout-7',
        headers: { tenant: 'Zoë' },
        payload: Buffer.from('{"orderId":"o-1","amount":12.5}'),
      })
      await publish(broker.publisher({ exchange: '' }), [message])
      const consumed = Promise.withResolvers<RabbitmqDelivery | null>()
      const { consumerTag } = await broker.channel.consume(queue, consumed.resolve, { noAck: true })
      const delivery = await consumed.promise
      await broker.channel.cancel(consumerTag)
      const received = fromRabbitmq<{ orderId: string; amount: number }>(delivery!)
      expectTypeOf(received).toEqualTypeOf<InboxMessage<{ orderId: string; amount: number }>>()
      expect(received).toEqual({
        id: message.id,
        type: 'order.paid',
        correlationId: 'checkout-7',
        time: new Date('2026-03-04T05:06:07.890Z'),
        headers: { tenant: 'Zoë' },
        payload: { orderId: 'o-1', amount: 12.5 },
      })
    })
  }

  test('O13 all bytes of a payload are unchanged', async () => {
    const queue = await broker.queue()
    const payload = randomBytes(1_000_000)
    await publish(broker.publisher({ exchange: '' }), [
      outboxMessage({ topic: queue, payload, contentType: 'application/octet-stream' }),
    ])
    const [delivery] = await broker.take(queue)
    const received = fromRabbitmq<Uint8Array>(delivery!)
    expect(Object.getPrototypeOf(received.payload)).toBe(Uint8Array.prototype)
    expect(Buffer.compare(received.payload, payload)).toBe(0)
  })
})

describe('payloads of other publishers', () => {
  const bytes = (hex: string): Buffer => Buffer.from(hex, 'hex')
  const payloads: [string, Buffer, Options.Publish, unknown][] = [
    ['JSON without a content type', json, {}, { orderId: 'o-1' }],
    [
      'application/json; charset=utf-8',
      json,
      { contentType: 'application/json; charset=utf-8' },
      { orderId: 'o-1' },
    ],
    ['Application/JSON', json, { contentType: 'Application/JSON' }, { orderId: 'o-1' }],
    [
      'application/cloudevents+json',
      json,
      { contentType: 'application/cloudevents+json' },
      { orderId: 'o-1' },
    ],
    ['JSON that is null', Buffer.from('null'), {}, null],
    ['the encoding utf-8', json, { contentEncoding: 'utf-8' }, { orderId: 'o-1' }],
    ['text/plain', Buffer.from('\uFEFFZoë'), { contentType: 'text/plain' }, '\uFEFFZoë'],
    ['JSON after a byte order mark', Buffer.from('\uFEFF{"a":1}'), {}, { a: 1 }],
    ['text/plain, empty', Buffer.alloc(0), { contentType: 'text/plain' }, ''],
    ['text/plain in Latin-1', bytes('5a6feb'), { contentType: 'text/plain; charset="iso-8859-1"' }, 'Zoë'],
    [
      'application/octet-stream',
      bytes('00ff80'),
      { contentType: 'application/octet-stream' },
      Uint8Array.of(0, 255, 128),
    ],
    [
      'application/xml',
      Buffer.from('<a/>'),
      { contentType: 'application/xml' },
      new TextEncoder().encode('<a/>'),
    ],
    [
      'bytes that are compressed',
      bytes('1f8b'),
      { contentType: 'application/gzip', contentEncoding: 'gzip' },
      Uint8Array.of(0x1f, 0x8b),
    ],
  ]
  for (const [name, content, properties, payload] of payloads) {
    test(name, async () => {
      expect(fromRabbitmq(await delivered(content, properties)).payload).toEqual(payload)
    })
  }

  const wrong: [string, Buffer, Options.Publish, RegExp][] = [
    ['a body that is no JSON', Buffer.from('{"a":'), {}, /^Message m-1 .*no content type.*not JSON/],
    [
      'a body that is no JSON, by its type',
      Buffer.from('a=1'),
      { contentType: 'application/json' },
      /'application\/json'.*not JSON/,
    ],
    ['an empty body, as JSON', Buffer.alloc(0), { contentType: 'application/json' }, /not JSON/],
    ['JSON that is no UTF-8', bytes('22ff22'), {}, /not text in utf-8/],
    ['text that is no UTF-8', bytes('ff'), { contentType: 'text/plain' }, /not text in utf-8/],
    [
      'a charset that nobody knows',
      json,
      { contentType: 'text/plain; charset=x-none' },
      /not text in x-none/,
    ],
    [
      'JSON that is compressed',
      gzipSync(json),
      { contentEncoding: 'gzip' },
      /content encoding 'gzip'\. Decode/,
    ],
  ]
  for (const [name, content, properties, text] of wrong) {
    test(`${name} is an InvalidMessageError`, async () => {
      const delivery = await delivered(content, properties)
      expect(() => fromRabbitmq(delivery)).toThrow(InvalidMessageError)
      expect(() => fromRabbitmq(delivery)).toThrow(text)
    })
  }
})

describe('properties of other publishers', () => {
  test('headers: text unchanged, numbers and booleans as text, no other values', async () => {
    const { headers } = fromRabbitmq(
      await delivered(json, {
        headers: {
          text: 'a',
          empty: '',
          number: 42,
          fraction: 1.5,
          yes: true,
          nothing: null,
          bytes: Buffer.from('a'),
          list: ['a'],
          nested: { a: 'b' },
          at: { '!': 'timestamp', value: 1 },
        },
      }),
    )
    expect(headers).toEqual({ text: 'a', empty: '', number: '42', fraction: '1.5', yes: 'true' })
  })

  test('the numbers in which a quorum queue counts are left out', () => {
    const read = (headers: object) =>
      fromRabbitmq({ content: Buffer.from('{}'), properties: { messageId: 'a', headers } }).headers
    expect(read({ 'x-delivery-count': 1, 'x-acquired-count': 2, tenant: 'a' })).toEqual({ tenant: 'a' })
    expect(read({ 'x-delivery-count': 'text of a producer' })).toEqual({
      'x-delivery-count': 'text of a producer',
    })
  })

  test('missing properties are left out', async () => {
    expect(fromRabbitmq(await delivered(json))).toEqual({
      id: 'm-1',
      headers: {},
      payload: { orderId: 'o-1' },
    })
    const { content } = await delivered(json)
    expect(fromRabbitmq({ content, properties: { messageId: 'm-2' } })).toMatchObject({
      id: 'm-2',
      headers: {},
    })
  })

  test('the timestamp is in seconds; a timestamp in milliseconds is recognized', async () => {
    const seconds = fromRabbitmq(await delivered(json, { timestamp: 1_767_225_600 }))
    const milliseconds = fromRabbitmq(await delivered(json, { timestamp: 1_767_225_600_123 }))
    expect(seconds.time).toEqual(new Date('2026-01-01T00:00:00Z'))
    expect(milliseconds.time).toEqual(new Date('2026-01-01T00:00:00.123Z'))
    expect(fromRabbitmq(await delivered(json, { timestamp: 2 ** 60 })).time).toBeUndefined()
  })

  test("the header 'txbox-time' has milliseconds, is read before the timestamp, and is no header of the message", async () => {
    const timestamp = 1_767_225_600
    const read = async (time: unknown) => {
      const { time: at, headers } = fromRabbitmq(
        await delivered(json, { timestamp, headers: { a: 'b', 'txbox-time': time } }),
      )
      return [at === undefined ? undefined : new Date(at).toISOString(), headers]
    }
    expect(await read('2026-03-04T05:06:07.890Z')).toEqual(['2026-03-04T05:06:07.890Z', { a: 'b' }])
    expect(await read('2026-03-04T06:06:07.890123+01:00')).toEqual(['2026-03-04T05:06:07.890Z', { a: 'b' }])
    expect(await read('2026-03-04t05:06:07z')).toEqual(['2026-03-04T05:06:07.000Z', { a: 'b' }])
    for (const other of ['yesterday', '2026-03-04', '2026-13-04T05:06:07Z', '2026-03-04T05:06:07', '', '1']) {
      expect(await read(other)).toEqual(['2026-01-01T00:00:00.000Z', { a: 'b' }])
    }
    expect(await read(42)).toEqual(['2026-01-01T00:00:00.000Z', { a: 'b' }])
  })

  test('K6 the source of a CloudEvent is the source of the message', async () => {
    for (const name of ['cloudEvents:source', 'cloudEvents_source']) {
      expect(fromRabbitmq(await delivered(json, { headers: { [name]: '/shop' } })).source).toBe('/shop')
    }
  })

  test('K5 a delivery without a message id is an InvalidMessageError that says what to do', async () => {
    for (const messageId of [undefined, '']) {
      const delivery = await delivered(json, { messageId } as Options.Publish)
      expect(() => fromRabbitmq(delivery)).toThrow(InvalidMessageError)
      expect(() => fromRabbitmq(delivery)).toThrow(/no message id.*Make the producer set it/)
    }
  })

  test('a value that is not a delivery is an InvalidMessageError', () => {
    for (const value of [null, undefined, {}, { content: 'text', properties: {} }, { content: json }]) {
      expect(() => fromRabbitmq(value as unknown as RabbitmqDelivery)).toThrow(InvalidMessageError)
    }
  })
})
