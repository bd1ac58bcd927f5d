import { gzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { PermanentError, createConsumer, type InboxMessage } from '@txbox/consumer'
import type { OutboxMessage } from '@txbox/core'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { until } from '../support/worlds/until.ts'
import { useBroker } from './broker-under-test.ts'

const broker = useBroker()

const BIG_NUMBER = '{"orderId":7301234567890123457}'

const CASES: readonly (readonly [string, Buffer, { contentType?: string; contentEncoding?: string }])[] = [
  ['a large integer', Buffer.from(BIG_NUMBER), { contentType: 'application/json' }],
  ['JSON of 5,000 levels', Buffer.from('['.repeat(5000) + ']'.repeat(5000)), {}],
  ['1.0', Buffer.from('{"n":1.0}'), { contentType: 'application/json; charset=utf-8' }],
  ['a byte order mark', Buffer.from('\uFEFF{"n":1}'), { contentType: 'application/json' }],
  ['a text in Latin-1', Buffer.from('caf\xE9', 'latin1'), { contentType: 'text/plain; charset=iso-8859-1' }],
  ['compressed JSON', gzipSync('{"n":1}'), { contentType: 'application/json', contentEncoding: 'gzip' }],
  ['compressed bytes', gzipSync('n'), { contentType: 'application/octet-stream', contentEncoding: 'gzip' }],
  ['a vendor type', Buffer.from('{"n": 1}'), { contentType: 'application/vnd.shop.order.v1+json' }],
  ['protobuf', Buffer.from([8, 150, 1]), { contentType: 'application/x-protobuf' }],
  ['XML', Buffer.from('<?xml version="1.0"?><n>1</n>'), { contentType: 'application/xml' }],
  ['broken JSON', Buffer.from('{"n":'), { contentType: 'application/json' }],
  ['no content type and no content', Buffer.alloc(0), {}],
]

/** Changes all that a handler can reach. */
function vandalize(message: InboxMessage): void {
  const { payload } = message as { payload: unknown }
  if (payload instanceof Uint8Array) payload.fill(0)
  else if (Array.isArray(payload)) payload.length = 0
  else if (typeof payload === 'object' && payload !== null) Object.assign(payload, { n: 'changed' })
  Object.assign(message.headers ?? {}, { tenant: 'changed', more: 'changed' })
  Object.assign(message, { id: 'changed', type: 'changed', correlationId: 'changed' })
}

for (const how of ['the option deadLetters', 'the exchange of declare'] as const) {
  test.each(CASES)(
    `C10 the dead letter of %s is what arrived, whatever the handler has changed (${how})`,
    async (_, content, type) => {
      const graveyard = await broker.queue()
      const deadLetterExchange = await broker.exchange('fanout')
      await broker.channel.bindQueue(graveyard, deadLetterExchange, '')
      const queue = broker.name('queue')
      broker.deleteAfterwards(queue)
      const isDeclared = how === 'the exchange of declare'
      const declare = { type: 'quorum', ...(isDeclared ? { deadLetterExchange } : {}) } as const
      const consumer = createConsumer({
        source: rabbitmqSource({ url: broker.url, queue, declare }),
        name: 'orders',
        logger: false,
        ...(isDeclared
          ? {}
          : { deadLetters: broker.publisher({ exchange: '' }), deadLetterTopic: graveyard }),
        handler: (message) => {
          vandalize(message)
          throw new PermanentError('no such order')
        },
      })
      const errors: unknown[] = []
      consumer.on('error', ({ error }) => errors.push(error))
      const died = new Promise<void>((resolve) => void consumer.on('dead-lettered', () => resolve()))
      onTestFinished(() => consumer.stop())
      await consumer.start()
      const headers = { tenant: 'a', 'txbox-key': 'k' }
      const properties = { messageId: 'm1', type: 'order.paid', correlationId: 'c1', headers, ...type }
      broker.channel.sendToQueue(queue, content, properties)
      await died
      const [letter] = await broker.take(graveyard)
      expect(letter!.content).toEqual(content)
      expect(letter!.properties).toMatchObject({
        messageId: 'm1',
        type: 'order.paid',
        correlationId: 'c1',
        contentType: type.contentType,
        contentEncoding: type.contentEncoding,
      })
      expect(letter!.properties.headers).toMatchObject({ ...headers, 'txbox-deliveries': expect.anything() })
      expect(letter!.properties.headers).not.toHaveProperty('more')
      expect(errors).toEqual([])
      await until(
        async () => (await broker.channel.checkQueue(queue)).messageCount === 0,
        () => 'messages in the queue: 0',
      )
    },
  )
}

test.each([
  ['k', {}, {}],
  ['own', { key: (): string => 'own' }, { 'txbox-key': 'k' }],
  [undefined, { key: (): undefined => undefined }, { 'txbox-key': 'k' }],
])(
  'C10 a dead letter with the key %s has no second one in its headers, and loses none; the handler gets no such header',
  async (expected, options, kept) => {
    const queue = await broker.queue({ type: 'quorum' })
    const seen: unknown[] = []
    const letter = Promise.withResolvers<OutboxMessage>()
    const consumer = createConsumer({
      source: rabbitmqSource({ url: broker.url, queue, ...options }),
      name: 'orders',
      logger: false,
      deadLetters: {
        publish: async (messages) => {
          letter.resolve(messages[0]!)
          return messages.map(() => ({ status: 'accepted' }))
        },
      },
      deadLetterTopic: 'graveyard',
      handler: ({ headers }) => {
        seen.push(headers?.['tenant'], headers?.['txbox-key'])
        throw new PermanentError('no such order')
      },
    })
    onTestFinished(() => consumer.stop())
    await consumer.start()
    const headers = { tenant: 'a', 'txbox-key': 'k' }
    broker.channel.sendToQueue(queue, Buffer.from('{"n":1}'), { messageId: 'm1', headers })
    const { key: ofLetter, headers: received } = await letter.promise
    const { 'x-delivery-count': _, ...others } = received
    expect(ofLetter).toBe(expected)
    expect(others).toEqual({
      tenant: 'a',
      ...kept,
      'txbox-error': expect.stringContaining('no such order'),
      'txbox-deliveries': '1',
      'txbox-source': `rabbitmq ${queue}`,
    })
    expect(seen).toEqual(['a', undefined])
  },
)
