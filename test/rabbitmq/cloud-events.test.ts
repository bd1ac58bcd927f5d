import { onTestFinished, expect, test } from 'vitest'
import { cloudEvents } from '@txbox/cloudevents'
import { fromRabbitmq, rabbitmqSource } from '@txbox/rabbitmq'
import { outboxMessage, publish, summary, useBroker } from './broker-under-test.ts'

const broker = useBroker()
const TRACEPARENT = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`

test.for(['binary', 'structured'] as const)('an event in %s mode passes RabbitMQ', async (mode) => {
  const topic = await broker.queue({ type: 'quorum' })
  const publisher = broker.publisher({ url: broker.url, exchange: '' })
  const events = cloudEvents({ source: '/orders', publisher, mode, extensions: ['tenant'] })
  const headers = { tenant: 'north', other: 'x', traceparent: TRACEPARENT }
  const fields = { id: 'order 1', type: 'order.paid', correlationId: 'c', key: 'k', headers }
  expect(summary(await publish(events, [outboxMessage({ topic, ...fields })]))).toEqual(['accepted'])
  const [delivery] = await broker.take(topic)
  const message = fromRabbitmq<{ data?: unknown }>(delivery!)
  expect(message).toMatchObject({ id: 'order 1', type: 'order.paid', correlationId: 'c' })
  expect(message.time).toEqual(new Date('2026-03-04T05:06:07.890Z'))
  if (mode === 'structured') {
    expect(delivery!.properties.contentType).toBe('application/cloudevents+json')
    expect(message.payload).toMatchObject({
      id: 'order 1',
      source: '/orders',
      tenant: 'north',
      data: { n: 1 },
    })
    return
  }
  expect(message).toMatchObject({ source: '/orders', payload: { n: 1 } })
  expect(message.headers).toEqual(headers)
})

test.for(['cloudEvents:', 'cloudEvents_'])(
  'a source reads an event of another producer whose attributes begin with %s',
  async (prefix) => {
    const queue = await broker.queue({ type: 'quorum' })
    const attributes = {
      ...{ specversion: '1.0', id: 'e-1', source: '/shop', type: 'order.paid', partitionkey: 'k' },
      ...{
        time: '2026-03-04T05:06:07.890123Z',
        correlationid: 'c',
        subject: 's',
        datacontenttype: 'application/json',
      },
    }
    const headers = Object.fromEntries(
      Object.entries(attributes).map(([name, value]) => [`${prefix}${name}`, value]),
    )
    broker.channel.sendToQueue(queue, Buffer.from('{"n":1}'), { contentType: 'application/json', headers })
    const opened = await rabbitmqSource({ url: broker.url, queue }).open({
      prefetch: 1,
      failed: () => undefined,
    })
    onTestFinished(() => opened.close())
    const [delivery] = await opened.receive(1, { signal: AbortSignal.timeout(10_000) })
    const { message, key, body } = delivery!
    expect(message).toMatchObject({ id: 'e-1', source: '/shop', type: 'order.paid', correlationId: 'c' })
    expect(message).toMatchObject({ time: attributes.time, payload: { n: 1 } })
    expect([key, message.headers?.['subject']]).toEqual(['k', 's'])
    // A dead letter is the event as it was received.
    expect(body).toMatchObject({ id: 'e-1', headers })
    await delivery!.accept()
  },
)

test('the id of an event comes before the message id, and other headers are not read as an event', async () => {
  const delivery = (headers: object) => ({
    content: Buffer.from('1'),
    properties: { messageId: 'm', headers },
  })
  const event = { 'cloudEvents:specversion': '1.0', 'cloudEvents:id': 'e' }
  expect(fromRabbitmq(delivery(event)).id).toBe('e')
  expect(fromRabbitmq(delivery({ 'cloudEvents:id': 'e' }))).toMatchObject({
    ...{ id: 'm', headers: { 'cloudEvents:id': 'e' } },
  })
  expect(fromRabbitmq(delivery({ 'cloudEvents:specversion': '1.0' })).id).toBe('m')
})
