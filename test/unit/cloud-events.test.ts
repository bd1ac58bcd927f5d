import { HTTP, Kafka, type CloudEventV1 } from 'cloudevents'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cloudEvents, type CloudEventsOptions } from '@txbox/cloudevents'
import type { OutboxMessage } from '@txbox/core'
import { EventRecorder, HEADERS, KAFKA, NATS, eventOf } from '../support/subjects/event-recorder.ts'
import { outboxMessage, publish, reason, summary } from '../support/subjects/publishing.ts'

const TRACEPARENT = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`

const FULL: Partial<OutboxMessage> = {
  ...{ id: 'order 1', type: 'order.paid', key: 'k é', correlationId: 'c', contentType: 'application/json' },
  payload: Buffer.from('{"total":1.50}'),
  headers: { tenant: 'north', plain: 'x', traceparent: TRACEPARENT, tracestate: 'a=1' },
}
const ATTRIBUTES = {
  ...{ specversion: '1.0', id: 'order 1', source: '/orders', type: 'order.paid' },
  ...{ time: '2026-03-04T05:06:07.890Z', datacontenttype: 'application/json', partitionkey: 'k é' },
  ...{ correlationid: 'c', traceparent: TRACEPARENT, tracestate: 'a=1', tenant: 'north', subject: 's' },
}
const OPTIONS: Partial<CloudEventsOptions> = { extensions: ['tenant', 'other'], subject: () => 's' }

describe('binary mode', () => {
  test('the official SDK reads an event of the binding for HTTP, and the attributes are percent-encoded', async () => {
    const { headers, payload, contentType } = await eventOf(FULL, HEADERS, OPTIONS)
    expect(headers).toMatchObject({ 'ce-id': 'order%201', 'ce-partitionkey': 'k%20%C3%A9', plain: 'x' })
    expect(headers).not.toHaveProperty('tenant')
    expect(headers).not.toHaveProperty('ce-datacontenttype')
    const body = Buffer.from(payload).toString()
    const decoded = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, decodeURIComponent(value)]),
    )
    const event = HTTP.toEvent({
      headers: { ...decoded, 'content-type': contentType },
      body,
    }) as CloudEventV1<unknown>
    expect(JSON.parse(JSON.stringify(event))).toEqual({ ...ATTRIBUTES, data: { total: 1.5 } })
  })

  test('the official SDK reads an event of the binding for Kafka', async () => {
    const { headers, payload, contentType } = await eventOf(FULL, KAFKA, OPTIONS)
    const message = { headers: { ...headers, 'content-type': contentType }, key: 'k é' }
    const body = Buffer.from(payload).toString()
    const event = Kafka.toEvent({ ...message, body, value: body } as never) as CloudEventV1<unknown>
    expect(JSON.parse(JSON.stringify(event))).toEqual({ ...ATTRIBUTES, data: { total: 1.5 } })
  })

  test('the binding for NATS has the content type as an attribute', async () => {
    const { headers } = await eventOf({ contentType: 'text/plain; charset="utf-8"' }, NATS)
    expect(headers['ce-datacontenttype']).toBe('text/plain;%20charset=%22utf-8%22')
  })

  test('the payload and the fields of the message are the same, and its own object is not changed', async () => {
    const message = Object.freeze(
      outboxMessage({ topic: 'orders', ...FULL, headers: Object.freeze({ a: 'b' }) }),
    )
    const publisher = new EventRecorder(KAFKA)
    await publish(cloudEvents({ source: '/orders', publisher }), [message])
    const sent = publisher.sent[0]!
    expect(sent.payload).toBe(message.payload)
    const { id, topic, type, key, correlationId, contentType, createdAt, attempt } = message
    expect(sent).toMatchObject({ id, topic, type, key, correlationId, contentType, createdAt, attempt })
    expect(message.headers).toEqual({ a: 'b' })
    expect(sent.json()).toEqual({ total: 1.5 })
  })

  test.for(['ce-id', 'CE-Type'])("a header '%s' is refused by name, alone", async (name) => {
    const publisher = new EventRecorder(HEADERS)
    const results = await publish(cloudEvents({ source: '/orders', publisher }), [
      outboxMessage({ topic: 'orders', headers: { [name]: 'mine' } }),
      outboxMessage({ topic: 'orders' }),
    ])
    expect(summary(results)).toEqual(['rejected for good', 'accepted'])
    expect(reason(results[0])).toContain(`'${name}'`)
  })
})

describe('structured mode', () => {
  const structured = async (message: Partial<OutboxMessage>, options: Partial<CloudEventsOptions> = {}) => {
    const sent = await eventOf(message, undefined, options)
    expect(sent.contentType).toBe('application/cloudevents+json')
    return { sent, text: sent.text() }
  }

  test('the official SDK reads the event', async () => {
    const { sent, text } = await structured(FULL, OPTIONS)
    const headers = { ...sent.headers, 'content-type': sent.contentType }
    const event = HTTP.toEvent({ headers, body: text }) as CloudEventV1<unknown>
    expect(JSON.parse(JSON.stringify(event))).toEqual({ ...ATTRIBUTES, data: { total: 1.5 } })
    expect(sent.headers).toEqual({ plain: 'x', traceparent: TRACEPARENT, tracestate: 'a=1' })
  })

  test('JSON is in the event byte for byte', async () => {
    const json = '{ "n" : 12345678901234567890.10, "n": 1e400, "é": "\\u00e9" }\n'
    expect((await structured({ payload: Buffer.from(json) })).text).toContain(`,"data":${json}}`)
  })

  test.for<[string, Partial<OutboxMessage>, unknown]>([
    ['text', { contentType: 'text/plain', payload: Buffer.from('\uFEFF"a"\0') }, { data: '\uFEFF"a"\0' }],
    [
      'bytes',
      { contentType: 'application/octet-stream', payload: Buffer.from([0, 255]) },
      { data_base64: 'AP8=' },
    ],
    ['JSON that is none', { payload: Buffer.from('{') }, { data_base64: 'ew==' }],
    ['JSON with a mark', { payload: Buffer.from('\uFEFF1') }, { data_base64: '77u/MQ==' }],
    [
      'a text in no UTF-8',
      { contentType: 'text/plain', payload: Buffer.from([255]) },
      { data_base64: '/w==' },
    ],
    [
      'another charset',
      { contentType: 'text/plain; charset=latin1', payload: Buffer.from('a') },
      { data_base64: 'YQ==' },
    ],
    ['nothing', { payload: new Uint8Array() }, { data_base64: '' }],
    [
      'gzip',
      { contentEncoding: 'gzip', payload: Buffer.from('{}') },
      { data_base64: 'e30=', contentencoding: 'gzip' },
    ],
  ])('%s', async ([, message, expected]) => {
    const { sent, text } = await structured(message)
    expect(JSON.parse(text)).toMatchObject(expected as object)
    expect(sent.contentEncoding).toBeUndefined()
  })

  test('whatever a message has, the event is JSON with the same fields and bytes', async () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 20 })
    const bytes = fc.oneof(
      fc.uint8Array(),
      fc.json().map((json) => Buffer.from(json)),
    )
    const contentTypes = fc.constantFrom('application/json', 'text/a', 'a/b')
    const property = fc.asyncProperty(
      text,
      text,
      bytes,
      contentTypes,
      async (id, key, payload, contentType) => {
        const sent = await eventOf({ id: `a${id}`, key, payload, contentType })
        const event = sent.json<Readonly<Record<string, string>>>()
        expect([event['id'], event['partitionkey']]).toEqual([`a${id}`, key])
        const { data_base64: base64, data } = event
        if (base64 !== undefined) expect(Buffer.from(base64, 'base64')).toEqual(Buffer.from(payload))
        else if (contentType === 'text/a') expect(Buffer.from(data!)).toEqual(Buffer.from(payload))
        else expect(sent.text().endsWith(`,"data":${Buffer.from(payload).toString()}}`)).toBe(true)
      },
    )
    await fc.assert(property)
  })
})

describe('attributes', () => {
  test('a message without a type has its topic as the type', async () => {
    expect((await eventOf({}, KAFKA)).headers['ce_type']).toBe('orders')
  })

  test.for([
    ['a version that is none', { traceparent: TRACEPARENT.replace('00-', '01-') }],
    ['a trace of zeros', { traceparent: `00-${'0'.repeat(32)}-${'b'.repeat(16)}-01` }],
    ['a span of zeros', { traceparent: `00-${'a'.repeat(32)}-${'0'.repeat(16)}-01` }],
    ['capital letters', { traceparent: TRACEPARENT.toUpperCase() }],
    ['a state alone', { tracestate: 'a=1' }],
  ] as const)('%s is no trace context of the event', async ([, headers]) => {
    const sent = await eventOf({ headers }, KAFKA)
    expect(sent.headers).toMatchObject(headers)
    expect(sent.headers).not.toHaveProperty('ce_traceparent')
    expect(sent.headers).not.toHaveProperty('ce_tracestate')
  })

  test.for([
    ['too long', `a=${'b'.repeat(511)}`],
    ['no list of keys and values', 'a'],
    ['a list with a tab', 'a=1,\tb=2'],
  ])('a state that is %s is dropped, and the trace stays', async ([, tracestate]) => {
    const sent = await eventOf({ headers: { traceparent: TRACEPARENT, tracestate: tracestate! } }, KAFKA)
    expect(sent.headers['ce_traceparent']).toBe(TRACEPARENT)
    expect(sent.headers).not.toHaveProperty('ce_tracestate')
  })

  test.for<[string, Partial<OutboxMessage>]>([
    ["'id'", { id: '' }],
    ["'id'", { id: 'a\nb' }],
    ["'type'", { type: '\uD800' }],
    ["'partitionkey'", { key: '\u0085' }],
    ["'correlationid'", { correlationId: '\uFFFF' }],
  ])('%s: what cannot be an attribute is refused by name', async ([name, message]) => {
    const events = cloudEvents({ source: '/orders', publisher: new EventRecorder(KAFKA) })
    const [result] = await publish(events, [outboxMessage({ topic: 'orders', ...message })])
    expect(result).toMatchObject({ status: 'rejected', retryable: false })
    expect(reason(result)).toContain(name)
  })

  test('a function that fails rejects its message for now', async () => {
    const source = ({ type }: OutboxMessage): string => (type === 'bad' ? 'no uri' : '/orders')
    const events = cloudEvents({ source, publisher: new EventRecorder(KAFKA) })
    const messages = [outboxMessage({ topic: 'orders', type: 'bad' }), outboxMessage({ topic: 'orders' })]
    expect(summary(await publish(events, messages))).toEqual(['rejected for now', 'accepted'])
  })
})
