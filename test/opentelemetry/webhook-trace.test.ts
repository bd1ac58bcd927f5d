import { randomUUID } from 'node:crypto'
import { trace } from '@opentelemetry/api'
import type { TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { fromWebhook } from '@txbox/webhook'
import { expect, test } from 'vitest'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { RelayUnderTest } from '../support/subjects/relay-under-test.ts'
import { SECRETS } from '../support/subjects/signed-webhooks.ts'
import { WebhookEndpoint } from '../support/subjects/webhook-endpoint.ts'
import { webhookPublisherOf } from '../support/subjects/webhook-publishers.ts'
import { withinRequest } from './one-trace-rules.ts'
import { idOf, linksOf, traceOf, useSpans } from './spans-under-test.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 20 })
const spans = useSpans()
const { telemetry } = spans

test('the producer, the relay, the webhook, the service that receives it and its SQL are one trace', async () => {
  const consumer = `webhooks-${randomUUID()}`
  const inbox = createInbox({ database: root.database, consumer, telemetry })
  const secret = SECRETS.standard
  const effect = (tx: TransactionHandle): Promise<void> =>
    trace.getTracer('a driver').startActiveSpan('INSERT', async (span) => {
      await target.effect(tx, consumer)
      span.end()
    })
  const endpoint = await WebhookEndpoint.start(({ headers, payload }, response) => {
    const message = fromWebhook({ headers, body: payload }, { scheme: 'standard', secret, source: 'shop' })
    void inbox.run(message, effect).then(
      () => response.writeHead(204).end(),
      () => response.writeHead(500).end(),
    )
  })
  const topic = endpoint.url('/orders')
  await withinRequest(spans, async () => {
    const transaction = await root.begin()
    const publishing = createOutbox({ database: root.database, telemetry })
    await publishing.publish(transaction.tx, {
      topic,
      id: `${consumer}-1`,
      type: 'order.placed',
      payload: {},
    })
    await transaction.commit()
  })
  await RelayUnderTest.started(root, webhookPublisherOf({ secret }), { telemetry })
  const [process] = await spans.has(`process ${consumer}`)
  const [send] = await spans.has(`send ${topic}`)
  const [request, create, insert] = ['request', `create ${topic}`, 'INSERT'].map((of) => spans.named(of)[0]!)

  expect(new Set([request!, create!, process!, insert!].map(traceOf)).size).toBe(1)
  expect(process!.parentSpanContext).toMatchObject({ spanId: idOf(create!), isRemote: true })
  expect(insert!.parentSpanContext?.spanId).toBe(idOf(process!))
  expect(linksOf(send!)).toEqual([idOf(create!)])
  expect(send!.attributes).toMatchObject({
    'messaging.system.name': 'http',
    'messaging.message.id': `${consumer}-1`,
  })
  expect(endpoint.all[0]!.headers).toMatchObject({
    traceparent: `00-${traceOf(create!)}-${idOf(create!)}-01`,
    tracestate: 'vendor=kept',
  })
  expect(process!.attributes['txbox.inbox.outcome']).toBe('processed')
  expect(await target.effects(consumer)).toBe(1)
})
