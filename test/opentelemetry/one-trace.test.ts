import { randomUUID } from 'node:crypto'
import { SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import type { NewMessage } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { RelayUnderTest } from '../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget, type Root } from '../support/engines/target.ts'
import { useBroker } from '../rabbitmq/broker-under-test.ts'
import { idOf, linksOf, traceOf, useSpans } from './spans-under-test.ts'

const target = useTarget()
const broker = useBroker()
const root: Root = useRoot(target, mainKind(target), { max: 20 })
const spans = useSpans()
const { telemetry } = spans

async function publish(messages: NewMessage | readonly NewMessage[]): Promise<void> {
  const transaction = await root.begin()
  await createOutbox({ database: root.database, telemetry }).publish(transaction.tx, messages)
  await transaction.commit()
}

/** A relay that publishes to the queues of RabbitMQ. */
function relay(): Promise<RelayUnderTest> {
  return RelayUnderTest.started(root, broker.publisher({ exchange: '' }), { telemetry })
}

/** Consumes a queue by an inbox. The SQL of the handler is in a span, as an instrumentation of the driver makes it. */
async function consume(queue: string, options: object = {}): Promise<string> {
  const consumer = `consumer-${randomUUID()}`
  const effect = (tx: never, id: string): Promise<void> =>
    trace.getTracer('a driver').startActiveSpan('INSERT', async (span) => {
      await target.effect(tx, `${consumer} ${id}`)
      span.end()
    })
  const isBatch = 'batch' in options
  const subject = createConsumer({
    source: rabbitmqSource({ url: broker.url, queue, keepsRejected: true }),
    inbox: createInbox({ database: root.database, consumer, telemetry }),
    handler: async (tx: never, messages: never) => {
      const list = (isBatch ? messages : [messages]) as readonly { readonly id: string }[]
      for (const { id } of list) await effect(tx, id)
    },
    telemetry,
    ...options,
  } as never)
  onTestFinished(() => subject.stop())
  await subject.start()
  return consumer
}

test('the producer, the relay, RabbitMQ, the consumer and its SQL are one trace', async () => {
  const queue = await broker.queue({ type: 'quorum' })
  await spans.within('POST /orders', () =>
    publish({ topic: queue, id: 'order-1', key: 'a', correlationId: 'c-1', payload: {} }),
  )
  await relay()
  const consumer = await consume(queue)
  const [process] = await spans.has(`process ${consumer}`)
  const [request] = spans.named('POST /orders')
  const [create] = spans.named(`create ${queue}`)
  const [send] = await spans.has(`send ${queue}`)
  const [insert] = spans.named('INSERT')

  expect(new Set([request, create, process, insert].map((span) => traceOf(span!))).size).toBe(1)
  expect(create!.parentSpanContext?.spanId).toBe(idOf(request!))
  expect(process!.parentSpanContext).toMatchObject({ spanId: idOf(create!), isRemote: true })
  expect(insert!.parentSpanContext?.spanId).toBe(idOf(process!))
  expect(send!.parentSpanContext).toBeUndefined()
  expect(linksOf(send!)).toEqual([idOf(create!)])
  expect([create, send, process].map((span) => span!.kind)).toEqual([
    SpanKind.PRODUCER,
    SpanKind.CLIENT,
    SpanKind.CONSUMER,
  ])
  expect(create!.attributes).toEqual({
    'messaging.system.name': 'txbox',
    'messaging.operation.type': 'create',
    'messaging.operation.name': 'publish',
    'messaging.destination.name': queue,
    'messaging.message.id': 'order-1',
    'messaging.message.conversation_id': 'c-1',
  })
  expect(send!.attributes).toEqual({
    'messaging.system.name': 'rabbitmq',
    'messaging.operation.type': 'send',
    'messaging.operation.name': 'send',
    'messaging.destination.name': queue,
    'messaging.batch.message_count': 1,
    'messaging.message.id': 'order-1',
    'messaging.message.conversation_id': 'c-1',
    'rabbitmq.destination.routing_key': queue,
    'server.address': broker.address.host,
    'server.port': broker.address.port,
  })
  expect(process!.attributes).toEqual({
    'messaging.system.name': 'rabbitmq',
    'messaging.operation.type': 'process',
    'messaging.operation.name': 'process',
    'messaging.destination.name': queue,
    'messaging.consumer.group.name': consumer,
    'messaging.message.id': 'order-1',
    'messaging.message.conversation_id': 'c-1',
    'txbox.inbox.outcome': 'processed',
  })
  // The inbox of the consumer begins no second span.
  expect(spans.named(`process ${consumer}`).length).toBe(1)
})

test('a batch is a span that is linked to the contexts of its messages', async () => {
  const queue = await broker.queue({ type: 'quorum' })
  const traces = new Set<string>()
  for (let n = 0; n < 3; n++) {
    await spans.within(`request ${n}`, async (span) => {
      traces.add(span.spanContext().traceId)
      await publish({ topic: queue, payload: n })
    })
  }
  expect(traces.size).toBe(3)
  await relay()
  const consumer = await consume(queue, { batch: { maxSize: 3, lingerMs: 5000 }, concurrency: 1 })
  const [process] = await spans.has(`process ${consumer}`)
  const created = spans.named(`create ${queue}`).map(idOf)
  expect(linksOf(process!).toSorted()).toEqual(created.toSorted())
  expect(process!.parentSpanContext).toBeUndefined()
  expect(process!.attributes['messaging.batch.message_count']).toBe(3)
  const sent = spans.named(`send ${queue}`)
  expect(sent.flatMap(linksOf).toSorted()).toEqual(created.toSorted())
  for (const insert of spans.named('INSERT')) expect(insert.parentSpanContext?.spanId).toBe(idOf(process!))
})

test("with parent: 'link' the handling of a message is a trace of its own, which is linked", async () => {
  const queue = await broker.queue({ type: 'quorum' })
  await spans.within('request', () => publish({ topic: queue, payload: 1 }))
  await relay()
  const consumer = await consume(queue, { parent: 'link' })
  const [process] = await spans.has(`process ${consumer}`)
  const [create] = spans.named(`create ${queue}`)
  expect(linksOf(process!)).toEqual([idOf(create!)])
  expect(process!.parentSpanContext).toBeUndefined()
  expect(traceOf(process!)).not.toBe(traceOf(create!))
})

test('a consumer that was started in a span does not take that span for the parent', async () => {
  const queue = await broker.queue({ type: 'quorum' })
  await publish([{ topic: queue, payload: 1 }])
  const consumer = await spans.within('start', async () => {
    await relay()
    return consume(queue)
  })
  const [process] = await spans.has(`process ${consumer}`)
  const [create] = spans.named(`create ${queue}`)
  expect(process!.parentSpanContext?.spanId).toBe(idOf(create!))
  const [send] = await spans.has(`send ${queue}`)
  expect(send!.parentSpanContext).toBeUndefined()
})

test('a handler that fails is a span that failed, and each attempt is one', async () => {
  const queue = await broker.queue({ type: 'quorum' })
  await publish({ topic: queue, payload: 1 })
  await relay()
  let attempts = 0
  const name = `consumer-${randomUUID()}`
  const subject = createConsumer({
    source: rabbitmqSource({ url: broker.url, queue, keepsRejected: true }),
    name,
    handler: () => {
      attempts++
      if (attempts < 2) throw Object.assign(new Error('no stock'), { code: 'NO_STOCK' })
    },
    retry: { attempts: 5, delayMs: () => 1 },
    telemetry,
    logger: false,
  })
  onTestFinished(() => subject.stop())
  await subject.start()
  const [first, second] = await spans.has(`process ${name}`, 2)
  const [create] = spans.named(`create ${queue}`)
  expect(first!.status).toEqual({ code: SpanStatusCode.ERROR, message: 'no stock' })
  expect(first!.attributes['error.type']).toBe('NO_STOCK')
  expect(second!.status.code).toBe(SpanStatusCode.UNSET)
  for (const each of [first, second]) expect(each!.parentSpanContext?.spanId).toBe(idOf(create!))
})
