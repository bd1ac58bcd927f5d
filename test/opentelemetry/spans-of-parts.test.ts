import { randomUUID } from 'node:crypto'
import { SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import { telemetryKey, type NewMessage } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { openTelemetry } from '@txbox/opentelemetry'
import { createOutbox } from '@txbox/outbox'
import { queueSource } from '@txbox/queue'
import { IdempotencyUnderTest } from '../support/subjects/idempotency-under-test.ts'
import { LocalUnderTest } from '../support/subjects/local-under-test.ts'
import { QueueUnderTest } from '../support/subjects/queue-under-test.ts'
import { messagesOf, RelayUnderTest } from '../support/subjects/relay-under-test.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { Broker, rejected } from '../support/worlds/broker.ts'
import { idOf, linksOf, traceOf, useSpans } from './spans-under-test.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target), { max: 20 })
const spans = useSpans()
const { telemetry } = spans

async function publish(messages: readonly NewMessage[], options: object = { telemetry }): Promise<void> {
  const transaction = await root.begin()
  await createOutbox({ database: root.database, ...options }).publish(transaction.tx, messages)
  await transaction.commit()
}

/** A header of a message that a span of the SDK has. */
function headersOf(traceId: string, spanId: string): { traceparent: string } {
  return { traceparent: `00-${traceId}-${spanId}-01` }
}

test('a local consumer continues the trace of each message, and its handler publishes into that trace', async () => {
  const subject = new LocalUnderTest(target, root, { made: ['billing'], billed: ['mailer'] }, { telemetry })
  await spans.within('request', () => subject.publish({ id: 'm-1', key: 'a' }))
  await subject.start(
    'billing',
    { made: async (tx) => void (await subject.publishIn({ tx }, { type: 'billed' })) },
    { telemetry },
  )
  await subject.settled()
  await subject.start('mailer', { billed: () => undefined }, { telemetry })
  await subject.settled('mailer')
  const [billing] = await spans.has(`process ${subject.name('billing')}`)
  const [mailer] = await spans.has(`process ${subject.name('mailer')}`)
  const [first, second] = spans.named('create')
  const [request] = spans.named('request')
  const all = [request!, first!, billing!, second!, mailer!]
  expect(new Set(all.map(traceOf)).size).toBe(1)
  expect(all.slice(1).map((span) => span.parentSpanContext?.spanId)).toEqual(all.slice(0, -1).map(idOf))
  expect(billing!.kind).toBe(SpanKind.CONSUMER)
  expect(billing!.attributes).toMatchObject({
    'messaging.system.name': 'txbox',
    'messaging.message.id': 'm-1',
  })
})

test('a batch of a local consumer is linked to its messages', async () => {
  const subject = new LocalUnderTest(target, root, ['billing'], { telemetry })
  await subject.publish({}, {}, {})
  await subject.startBatches('billing', () => undefined, { telemetry })
  await subject.settled()
  const processed = spans.named(`process ${subject.name('billing')}`)
  expect(processed.flatMap(linksOf).toSorted()).toEqual(spans.named('create').map(idOf).toSorted())
  for (const each of processed) expect(each.parentSpanContext).toBeUndefined()
})

test('a consumer of a queue continues the trace of send', async () => {
  const subject = new QueueUnderTest(target, root, { telemetry })
  await subject.send({ key: 'a' })
  const consumer = createConsumer({
    source: queueSource(subject.queue),
    database: root.database,
    name: `consumer-${randomUUID()}`,
    handler: () => undefined,
    telemetry,
  })
  onTestFinished(() => consumer.stop())
  await consumer.start()
  const [create] = await spans.has(`create ${subject.queue.name}`)
  const process = (): typeof create => spans.ended.find(({ name }) => name.startsWith('process '))
  await expect.poll(process).toBeDefined()
  expect(create!.attributes['messaging.operation.name']).toBe('send')
  expect(process()!.parentSpanContext?.spanId).toBe(idOf(create!))
  expect(process()!.attributes['messaging.destination.name']).toBe(subject.queue.name)
})

test('an inbox tells its outcome, and is a child of the code that is running if that is part of the trace', async () => {
  const consumer = `consumer-${randomUUID()}`
  const inbox = createInbox({ database: root.database, consumer, telemetry })
  const id = randomUUID()
  await spans.within('a client of a broker', async (span) => {
    const { traceId } = span.spanContext()
    const message = { id, headers: headersOf(traceId, 'b7ad6b7169203331') }
    await inbox.run(message, () => undefined)
    await inbox.run(message, () => undefined)
  })
  const [around] = spans.named('a client of a broker')
  const [first, second] = spans.named(`process ${consumer}`)
  expect([first, second].map((span) => span!.attributes['txbox.inbox.outcome'])).toEqual([
    'processed',
    'duplicate',
  ])
  for (const each of [first, second]) expect(each!.parentSpanContext?.spanId).toBe(idOf(around!))
})

test('an inbox outside of any span continues the trace of its message; in the trace of another, too', async () => {
  const consumer = `consumer-${randomUUID()}`
  const inbox = createInbox({ database: root.database, consumer, telemetry })
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  const message = (): { id: string; headers: object } => ({
    id: randomUUID(),
    headers: headersOf(traceId, 'b7ad6b7169203331'),
  })
  let inHandler: string | undefined
  await inbox.run(message() as never, () => {
    inHandler = trace.getActiveSpan()?.spanContext().spanId
  })
  await spans.within('something else', () => inbox.run(message() as never, () => undefined))
  const [first, second] = spans.named(`process ${consumer}`)
  expect(inHandler).toBe(idOf(first!))
  for (const each of [first, second]) {
    expect(traceOf(each!)).toBe(traceId)
    expect(each!.parentSpanContext?.spanId).toBe('b7ad6b7169203331')
  }
})

test('processBatch and runBatch are linked to at most 128 messages, each once', async () => {
  const consumer = `consumer-${randomUUID()}`
  const inbox = createInbox({ database: root.database, consumer, telemetry })
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  const messages = Array.from({ length: 200 }, (_, n) => ({
    id: `${consumer} ${n}`,
    headers: headersOf(traceId, (Math.floor(n / 2) + 1 + (n >= 60 ? n : 0)).toString(16).padStart(16, '0')),
  }))
  await spans.within('a consumer of the user', async () => {
    const transaction = await root.begin()
    await inbox.processBatch(transaction.tx, messages.slice(0, 60), () => undefined)
    await transaction.commit()
    await inbox.runBatch(messages, () => undefined)
  })
  const [around] = spans.named('a consumer of the user')
  const [processed, ran] = spans.named(`process ${consumer}`)
  expect(linksOf(processed!).length).toBe(30)
  expect(linksOf(ran!).length).toBe(128)
  for (const each of [processed, ran]) expect(each!.parentSpanContext?.spanId).toBe(idOf(around!))
})

test('a call of a publisher with rejected messages, and one that throws, is a span that failed', async () => {
  await publish(messagesOf('a', 1))
  const broker = new Broker()
  const publisher = broker.publisher({
    respond: (call) => {
      const { number, messages } = call
      if (number === 1)
        throw Object.assign(new Error('no route to amqp://u:secret@host'), { code: 'EHOSTUNREACH' })
      return number === 2 ? messages.map(() => rejected({ error: new Error('full') })) : call.acceptAll()
    },
  })
  await RelayUnderTest.started(root, publisher, {
    telemetry,
    logger: false,
    retry: { attempts: 5, delayMs: () => 1 },
  })
  const [thrown, refused, accepted] = await spans.has('send test', 3)
  await outbox.settled()
  expect(thrown!.status).toMatchObject({
    code: SpanStatusCode.ERROR,
    message: expect.stringContaining('no route'),
  })
  expect(thrown!.status.message).not.toContain('secret')
  expect(thrown!.attributes['error.type']).toBe('EHOSTUNREACH')
  expect(refused!.status).toEqual({ code: SpanStatusCode.ERROR, message: 'full' })
  expect(accepted!.status.code).toBe(SpanStatusCode.UNSET)
})

test('a call of the publisher is linked to at most 128 messages', async () => {
  await publish(
    Array.from({ length: 300 }, (_, n) => ({
      topic: n < 150 ? 'test' : 'other',
      key: 'a',
      payload: n,
      headers: headersOf(randomUUID().replaceAll('-', ''), 'b7ad6b7169203331'),
    })),
  )
  const broker = new Broker()
  await RelayUnderTest.started(root, broker.publisher({ ordering: 'per-key' }), { telemetry })
  await broker.received(300)
  await outbox.settled()
  // A call of several topics has none in its name.
  const [send] = await spans.has('send')
  expect(send!.attributes).toEqual({
    'messaging.operation.type': 'send',
    'messaging.operation.name': 'send',
    'messaging.batch.message_count': 300,
  })
  // A span has the contexts of the traces; that they share a span id is of no interest.
  expect(send!.links.length).toBe(128)
  expect(new Set(send!.links.map((link) => link.context.traceId)).size).toBe(128)
})

test('a request is answered in a span below that of its server, and of its client otherwise', async () => {
  const subject = new IdempotencyUnderTest(target, root, { telemetry })
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  const headers = {
    'idempotency-key': randomUUID(),
    Traceparent: `00-${traceId}-b7ad6b7169203331-01`,
  }
  await subject.handle({ headers, route: '/orders' })
  await spans.within('POST /orders', () => subject.handle({ headers: { 'idempotency-key': randomUUID() } }))
  await subject.handle({ headers })
  const [first, second, third] = spans.named(`process ${subject.name}`)
  expect(first!.parentSpanContext?.spanId).toBe('b7ad6b7169203331')
  expect(second!.parentSpanContext?.spanId).toBe(idOf(spans.named('POST /orders')[0]!))
  expect(first!.attributes).toEqual({
    'http.request.method': 'POST',
    'http.route': '/orders',
    'http.response.status_code': 201,
    'txbox.request.outcome': 'handled',
  })
  expect(third!.attributes['txbox.request.outcome']).toBe('instead')
})

test("with spans: 'links-only' the span that publishes takes the place of create", async () => {
  const own = openTelemetry({ spans: 'links-only' })
  await spans.within('request', () => publish(messagesOf(undefined, 1), { telemetry: own }))
  const broker = new Broker()
  await RelayUnderTest.started(root, broker.publisher(), { telemetry: own })
  const [send] = await spans.has('send test')
  await outbox.settled()
  expect(spans.named('create test')).toEqual([])
  expect(linksOf(send!)).toEqual([idOf(spans.named('request')[0]!)])
})

test("with spans: 'none' contexts travel on, and handlers run in them", async () => {
  const own = openTelemetry({ spans: 'none' })
  const subject = new LocalUnderTest(target, root, ['billing'], { telemetry: own })
  const publishing = await spans.within('request', async (span) => {
    await subject.publish({})
    return span.spanContext().spanId
  })
  let inHandler: string | undefined
  await subject.start('billing', () => void (inHandler = trace.getActiveSpan()?.spanContext().spanId), {
    telemetry: own,
  })
  await subject.settled()
  expect(inHandler).toBe(publishing)
  expect(spans.ended.map(({ name }) => name).filter((name) => name !== 'request')).toEqual([])
})

test('what register registers is found by outboxes that were created before', async () => {
  const before = createOutbox({ database: root.database })
  onTestFinished(() => void Object.assign(globalThis, { [telemetryKey]: undefined }))
  await import('@txbox/opentelemetry/register')
  const transaction = await root.begin()
  await before.publish(transaction.tx, { topic: 'test', payload: 1 })
  await transaction.commit()
  const broker = new Broker()
  await RelayUnderTest.started(root, broker.publisher())
  const [send] = await spans.has('send test')
  await outbox.settled()
  const [create] = spans.named('create test')
  expect(linksOf(send!)).toEqual([idOf(create!)])
  expect(broker.log[0]!.message.headers).toEqual(headersOf(traceOf(create!), idOf(create!)))
})

test.each([
  [{ tracer: {} }, /'tracer' must be a Tracer/],
  [{ meter: 7 }, /'meter' must be a Meter/],
  [{ spans: 'some' }, /'spans' must be 'all' or 'links-only' or 'none'/],
  [{ destinationAttribute: 1 }, /'destinationAttribute' must be true or false/],
  [{ traces: true }, /there is no option 'traces'/],
])('openTelemetry refuses %o', (options, error) => {
  expect(() => openTelemetry(options as never)).toThrow(error)
})
