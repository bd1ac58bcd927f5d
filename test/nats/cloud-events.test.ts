import { jetstream } from '@nats-io/jetstream'
import { headers as newHeaders } from '@nats-io/transport-node'
import { expect, onTestFinished, test } from 'vitest'
import { cloudEvents } from '@txbox/cloudevents'
import { natsSource, type Delivery } from '@txbox/nats'
import { outboxMessage, publish, signal, summary } from '../support/subjects/publishing.ts'
import { useNats } from './nats-under-test.ts'

const nats = useNats()

/** @returns a function that receives the next message of the stream. */
async function receiving(stream: string): Promise<() => Promise<Delivery>> {
  const source = natsSource({ servers: nats.url, stream, consumer: 'billing', declare: {} })
  const opened = await source.open({ prefetch: 10, failed: () => undefined })
  onTestFinished(() => opened.close())
  return async () => (await opened.receive(1, { signal: signal() }))[0]!
}

test('an event in binary mode passes NATS, is the message again, and its headers are published again', async () => {
  const stream = await nats.stream()
  const [log, next] = [await nats.log(stream), await receiving(stream)]
  const events = cloudEvents({ source: '/orders', publisher: nats.publisher(), extensions: ['tenant'] })
  const headers = { tenant: ' nørth %41 ', other: 'x' }
  const fields = { topic: `${stream}.paid`, type: '"paid"', correlationId: 'c', key: 'k é' }
  expect(summary(await publish(events, [outboxMessage({ ...fields, id: '100% é', headers })]))).toEqual([
    'accepted',
  ])
  const [stored] = await log()
  const wire = Object.fromEntries([...stored!.headers!].map(([name, values]) => [name, values.join()]))
  expect(wire).toMatchObject({
    ...{ 'ce-specversion': '1.0', 'ce-id': '100%25%20%C3%A9', 'ce-type': '%22paid%22', other: 'x' },
    ...{ 'ce-partitionkey': 'k%20%C3%A9', 'ce-tenant': '%20n%C3%B8rth%20%2541%20' },
    ...{ 'ce-datacontenttype': 'application/json', 'content-type': 'application/json' },
  })
  const expected = {
    ...{ id: '100% é', source: '/orders', type: '"paid"', correlationId: 'c', headers },
    ...{ time: new Date('2026-03-04T05:06:07.890Z'), payload: { n: 1 } },
  }
  const first = await next()
  expect(first.message).toEqual(expected)
  expect(first.key).toBe('k é')
  // A dead letter is the event as it was received.
  expect(first.body).toMatchObject({
    ...{ id: '100% é', contentType: 'application/json' },
    headers: { 'ce-id': '100%25%20%C3%A9', other: 'x' },
  })
  await first.accept()

  const again = outboxMessage({ ...fields, id: 'again', headers: first.message.headers! })
  expect(summary(await publish(events, [again]))).toEqual(['accepted'])
  const second = await next()
  expect(second.message).toEqual({ ...expected, id: 'again' })
  await second.accept()
})

test('an event of another producer, and one that cannot be read', async () => {
  const stream = await nats.stream()
  const next = await receiving(stream)
  const client = jetstream(nats.connection)
  const send = async (attributes: Readonly<Record<string, string>>): Promise<void> => {
    const own = newHeaders()
    for (const [name, value] of Object.entries(attributes)) own.set(name, value)
    await client.publish(`${stream}.paid`, 'Zoë', { headers: own })
  }
  const event = {
    'ce-specversion': '1.0',
    'ce-source': '/shop',
    'ce-type': 'order.paid',
    'ce-partitionkey': 'k',
  }
  await send({ ...event, 'ce-id': '%E2%82%AC', 'ce-datacontenttype': 'text/plain' })
  await send({ ...event, 'ce-id': '%FF' })
  const first = await next()
  expect(first).toMatchObject({
    ...{ key: 'k', message: { id: '€', source: '/shop', type: 'order.paid', payload: 'Zoë', headers: {} } },
  })
  await first.accept()
  const second = await next()
  expect(String(second.undecodable)).toContain("'ce-id' encodes bytes that are no UTF-8")
  expect(second).toMatchObject({ message: { id: '' }, body: { headers: { ...event, 'ce-id': '%FF' } } })
  await second.reject({ error: second.undecodable })
})

test('an event in structured mode passes NATS', async () => {
  const stream = await nats.stream()
  const next = await receiving(stream)
  const events = cloudEvents({ source: '/orders', publisher: nats.publisher(), mode: 'structured' })
  await publish(events, [outboxMessage({ topic: `${stream}.paid`, id: 'order 1', key: 'k' })])
  const { message, key, body } = await next()
  expect([message.id, key, body?.contentType]).toEqual(['order 1', 'k', 'application/cloudevents+json'])
  expect(message.payload).toMatchObject({ id: 'order 1', source: '/orders', data: { n: 1 } })
})
