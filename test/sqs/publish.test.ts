import { createHash } from 'node:crypto'
import type { Message } from '@aws-sdk/client-sqs'
import { expect, test } from 'vitest'
import { fromSqs, sqsPublisher } from '@txbox/sqs'
import { REGION, attributeOf, endpointAt, useSqs } from './sqs-under-test.ts'
import { messageTo, published } from './published.ts'

const sqs = useSqs()

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

async function one(queue: string): Promise<Message> {
  const [message, ...more] = await sqs.current.take(queue)
  expect(more).toEqual([])
  return message!
}

test('F1 a message is a body of text and an attribute for each field', async () => {
  const queue = await sqs.current.queue()
  const message = messageTo(queue, {
    type: 'order.paid',
    key: 'order 7',
    correlationId: 'c-1',
    headers: { tenant: 'north', naïve: '👋' },
    payload: Buffer.from('{"name":"Zoë\\n"}\r\n\t'),
  })
  expect(await published(sqs.current.publisher(), [message])).toEqual([{ status: 'accepted' }])
  const received = await one(queue)
  expect(received.Body).toBe('{"name":"Zoë\\n"}\r\n\t')
  const attributes = Object.entries(received.MessageAttributes ?? {}).map(
    ([name, { DataType, StringValue }]) => [name, `${DataType} ${StringValue}`],
  )
  expect(Object.fromEntries(attributes)).toEqual({
    'txbox-id': `String ${message.id}`,
    'txbox-type': 'String order.paid',
    'txbox-key': 'String order 7',
    'txbox-correlation-id': 'String c-1',
    'txbox-time': 'String 2026-03-04T05:06:07.890Z',
    'content-type': 'String application/json',
    headers: String.raw`String {"tenant":"north","na\u00efve":"\ud83d\udc4b"}`,
  })
})

test.for([
  ['bytes that are no UTF-8', Uint8Array.of(0xff, 0xfe), 'base64'],
  ['a control character', Buffer.from('a\u0001'), 'base64'],
  ['a character that is no character', Buffer.from('\uFFFE'), 'base64'],
  ['no bytes', new Uint8Array(0), 'empty'],
  ['text with a byte order mark', Buffer.from('\uFEFFtext'), undefined],
] as const)('F6 %s arrives as it is, and is read back', async ([, payload, encoding]) => {
  const queue = await sqs.current.queue()
  const message = messageTo(queue, { payload, contentType: 'application/octet-stream' })
  await published(sqs.current.publisher(), [message])
  const received = await one(queue)
  expect(attributeOf(received, 'txbox-encoding')).toBe(encoding)
  expect(Buffer.from(fromSqs<Uint8Array>(received).payload)).toEqual(Buffer.from(payload))
})

test('F6 what is published is read back: fields and headers that cannot be attributes, too', async () => {
  const queue = await sqs.current.queue()
  const message = messageTo(queue, {
    id: 'a\u0000b',
    type: '',
    correlationId: '\uD800',
    key: 'k',
    contentType: 'application/json',
    headers: { '1': 'x', headers: 'y', 'txbox-id': 'z', empty: '' },
    payload: Buffer.from('{"n":12345678901234567}'),
  })
  Object.defineProperty(message.headers, '__proto__', { value: 'own', enumerable: true })
  expect(await published(sqs.current.publisher(), [message])).toEqual([{ status: 'accepted' }])
  const received = await one(queue)
  expect(attributeOf(received, 'txbox-fields')).toBe(
    String.raw`{"txbox-id":"a\u0000b","txbox-type":"","txbox-correlation-id":"\ud800"}`,
  )
  const read = fromSqs(received)
  expect(read).toMatchObject({ id: 'a\u0000b', type: '', correlationId: '\uD800', time: message.createdAt })
  expect(new Map(Object.entries(read.headers!))).toEqual(new Map(Object.entries(message.headers)))
})

test('F1 a message with every field, base64 and three attributes of its own has ten attributes', async () => {
  const queue = await sqs.current.queue()
  const headers = { tenant: 'north', region: 'eu', kind: 'a', other: 'b', empty: '' }
  const message = messageTo(queue, {
    ...{ type: 't', key: 'k', correlationId: 'c', contentType: 'application/gzip', contentEncoding: 'gzip' },
    headers,
    payload: Uint8Array.of(0),
  })
  const publisher = sqs.current.publisher({ attributes: ['tenant', 'region', 'kind'] })
  expect(await published(publisher, [message])).toEqual([{ status: 'accepted' }])
  const received = await one(queue)
  expect(Object.keys(received.MessageAttributes!).length).toBe(10)
  expect(attributeOf(received, 'tenant')).toBe('north')
  expect(attributeOf(received, 'headers')).toBe('{"other":"b","empty":""}')
  const { id, type, correlationId, headers: back, time, payload } = fromSqs<Uint8Array>(received)
  expect({ id, type, correlationId, time }).toEqual({
    ...{ id: message.id, type: 't', correlationId: 'c', time: message.createdAt },
  })
  expect(back).toEqual(headers)
  expect([...payload]).toEqual([0])
})

test('a FIFO queue has the key as its group and the id as its deduplication id, or their hashes', async () => {
  const queue = await sqs.current.queue({ fifo: true })
  const odd = 'x'.repeat(129)
  const messages = [
    messageTo(queue, { id: 'one', key: 'key-1' }),
    messageTo(queue, { id: odd, key: 'schlüssel' }),
    messageTo(queue, { id: 'three' }),
    messageTo(queue, { id: 'four', headers: { 'deduplication-id': 'pay-4' } }),
  ]
  await published(sqs.current.publisher(), messages)
  const received = await sqs.current.take(queue)
  const byId = new Map(
    received.map((each) => [
      attributeOf(each, 'txbox-id'),
      [each.Attributes?.MessageGroupId, each.Attributes?.MessageDeduplicationId],
    ]),
  )
  expect(Object.fromEntries(byId)).toEqual({
    one: ['key-1', 'one'],
    [odd]: [sha256('schlüssel'), sha256(odd)],
    three: ['three', 'three'],
    four: ['four', 'pay-4'],
  })
})

test('a resend within five minutes is no second message in a FIFO queue, and is accepted', async () => {
  const queue = await sqs.current.queue({ fifo: true })
  const message = messageTo(queue, { key: 'k' })
  for (let attempt = 0; attempt < 3; attempt += 1) {
    expect(await published(sqs.current.publisher(), [message])).toEqual([{ status: 'accepted' }])
  }
  expect((await sqs.current.take(queue)).length).toBe(1)
})

test('messages that are too large for one request together are sent by several', async () => {
  const queue = await sqs.current.queue()
  const messages = Array.from({ length: 10 }, () =>
    messageTo(queue, { payload: Buffer.from('x'.repeat(200_000)) }),
  )
  const results = await published(sqs.current.publisher(), messages)
  expect(results.every(({ status }) => status === 'accepted')).toBe(true)
  expect((await sqs.current.take(queue)).length).toBe(10)
})

test('O4 a queue that was there before and is missing counts no attempt', async () => {
  const queue = await sqs.current.queue()
  const publisher = sqs.current.publisher()
  expect(await published(publisher, [messageTo(queue)])).toEqual([{ status: 'accepted' }])
  await sqs.current.remove(queue)
  expect(await published(publisher, [messageTo(queue)])).toMatchObject([
    { status: 'rejected', retryable: true, counted: false },
  ])
  const [never] = await published(publisher, [messageTo(sqs.current.name('never'))])
  expect(never).toMatchObject({ status: 'rejected', retryable: true })
  expect(never).not.toHaveProperty('counted')
})

test('a topic may be the URL of a queue, and the option destination maps topics', async () => {
  const queue = await sqs.current.queue()
  const publisher = sqs.current.publisher({ destination: ({ topic }) => topic.replace('orders', queue) })
  const messages = [messageTo('orders'), messageTo(sqs.current.url(queue))]
  expect(await published(publisher, messages)).toEqual([{ status: 'accepted' }, { status: 'accepted' }])
  expect((await sqs.current.take(queue)).length).toBe(2)
  const failing = sqs.current.publisher({ destination: () => undefined as never })
  expect(await published(failing, [messageTo('orders')])).toMatchObject([
    { status: 'rejected', retryable: true },
  ])
})

test('check connects and logs in, and publishes nothing', async () => {
  const signal = new AbortController().signal
  await sqs.current.publisher().check!({ signal })
  const network = await sqs.current.network()
  await network.down()
  const away = sqsPublisher({ endpoint: endpointAt(network), region: REGION })
  await expect(away.check!({ signal })).rejects.toMatchObject({
    code: 'TXBOX_BROKER_UNAVAILABLE',
    retryable: true,
  })
  await away.close?.()
})
