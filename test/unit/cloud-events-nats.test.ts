import { CloudEvent, HTTP } from 'cloudevents'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { CloudEventsOptions, OutboxMessage } from '@txbox/cloudevents'
import { InvalidMessageError, fromNats, type NatsMessage } from '@txbox/nats'
import { outgoingMessage } from '../../packages/nats/src/publish/outgoing-message.ts'
import { readDelivery, type NatsSourceMessage } from '../../packages/nats/src/receive/delivery-reader.ts'
import { NATS, eventOf } from '../support/subjects/event-recorder.ts'
import { outboxMessage } from '../support/subjects/publishing.ts'
import { hostileText } from '../support/worlds/hostile-values.ts'
import { expectRefusal, outcomeOf } from '../support/worlds/refusals.ts'

const EVENT = { 'ce-specversion': '1.0', 'ce-id': 'e-1', 'ce-source': '/shop', 'ce-type': 'order.paid' }
const LIMITS = { maxMessageBytes: 1_000_000, stream: undefined }

function natsMessage(headers: Readonly<Record<string, string>>, data = '{"n":1}'): NatsSourceMessage {
  const values = Object.entries(headers).map(([name, value]) => [name, [value]] as const)
  return { subject: 'orders', data: Buffer.from(data), headers: values }
}

/** An event as `natsPublisher` sends it. */
async function sent(
  message: Partial<OutboxMessage>,
  options?: Partial<CloudEventsOptions>,
): Promise<NatsMessage> {
  const { headers, payload } = outgoingMessage(await eventOf(message, NATS, options), 'orders', LIMITS)
  return { data: payload, headers }
}

const delivered = (message: NatsMessage) =>
  readDelivery({ subject: 'orders', ...message }, { id: undefined, key: undefined })

describe('an event', () => {
  test('of natsPublisher is the message again, and its headers can be published again', async () => {
    const headers = {
      tenant: 'nørth %41',
      plain: 'x',
      traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
    }
    const fields = { id: '100% é', type: '"paid"', correlationId: 'c %2541', key: 'k é' }
    const options = { extensions: ['tenant'], subject: () => '\u{1F680} a' }
    const message = await sent({ ...fields, headers }, options)
    const { key, ...own } = fields
    const expected = {
      ...{ ...own, source: '/orders', headers: { ...headers, subject: '\u{1F680} a' } },
      ...{ time: new Date('2026-03-04T05:06:07.890Z'), payload: { n: 1 } },
    }
    expect(fromNats(message)).toEqual(expected)
    expect(delivered(message)).toMatchObject({ message: expected, key })
    const again = await sent({ ...fields, headers: expected.headers }, options)
    expect(fromNats(again)).toEqual(expected)
  })

  test('of the official SDK needs no header of txbox, and may be encoded more than it must', () => {
    const event = new CloudEvent<string>({
      ...{ id: '100% "é" \u{1F680}', source: '/shop', type: 'order paid', subject: 'a\\b', data: 'Zoë' },
      ...{ time: '2026-03-04T05:06:07.890Z', datacontenttype: 'text/plain; charset="utf-8"' },
      ...{
        partitionkey: 'k ü',
        correlationid: 'c',
        tenant: 'north/south',
        dataschema: 'https://a.example/v1',
      },
    })
    const { headers, body } = HTTP.binary(event)
    const encoded = Object.entries(headers).map(([name, value]) => [
      name === 'content-type' ? 'ce-datacontenttype' : name,
      encodeURIComponent(String(value)).replaceAll(/%../g, (byte) => byte.toLowerCase()),
    ])
    const message = natsMessage(Object.fromEntries(encoded) as Record<string, string>, String(body))
    const { id, source, type, subject, time, data } = event
    const extensions = { subject, tenant: 'north/south', dataschema: 'https://a.example/v1' }
    expect(fromNats(message)).toEqual({
      ...{ id, source, type, correlationId: 'c', time: new Date(time!), payload: data, headers: extensions },
    })
    expect(delivered(message).key).toBe('k ü')
  })

  test('comes before what JetStream and txbox know of the message, except its correlation and its key', () => {
    const own = { 'Nats-Msg-Id': 'm', 'txbox-type': 't', 'txbox-correlation-id': 'own', 'txbox-key': 'own' }
    const attributes = {
      ...EVENT,
      'ce-correlationid': 'c',
      'ce-partitionkey': 'k',
      'ce-tenant': 'a',
      tenant: 'b',
    }
    const { message, key, headers } = delivered(natsMessage({ ...own, ...attributes }))
    expect([message.id, message.type, message.correlationId, key]).toEqual([
      'e-1',
      'order.paid',
      'own',
      'own',
    ])
    expect(message.headers).toEqual({ tenant: 'b' })
    // A dead letter has them as they were received.
    expect(headers.received).toEqual(attributes)
    expect(fromNats(natsMessage({ ...own, 'ce-specversion': '1.0', 'ce-id': '' })).id).toBe('m')
  })

  test('has names in any case; what is no name of an attribute stays a header', () => {
    const odd = { 'ce-nats-rollup': 'all', 'ce-txbox-id': 'x', 'ce-': 'y', 'CE-A-b': 'z', Ce: 'w' }
    const names = { 'Ce-Specversion': '1.0', 'CE-ID': 'e-1', 'ce-Tenant': 'a', 'Nats-Rollup': 'all' }
    const { id, headers } = fromNats(natsMessage({ ...odd, ...names }))
    expect({ id, headers }).toEqual({ id: 'e-1', headers: { ...odd, tenant: 'a' } })
    expect(() => outgoingMessage(outboxMessage({ topic: 'a', headers: headers! }), 'a', LIMITS)).not.toThrow()
  })

  test('is none without a version', () => {
    const { id, headers } = fromNats(natsMessage({ 'Nats-Msg-Id': 'm', 'ce-id': '%FF', 'Ce-Type': 'a' }))
    expect({ id, headers }).toEqual({ id: 'm', headers: { 'ce-id': '%FF', 'Ce-Type': 'a' } })
  })
})

test.for([
  ['text/plain', undefined, '{"n":1}'],
  ['text%2Fplain', 'application/json', '{"n":1}'],
  ['', 'text/plain', '{"n":1}'],
  [undefined, undefined, { n: 1 }],
  // An event in structured mode, whose attributes are headers, too.
  ['text/plain', 'application/cloudevents+json; charset=UTF-8', { n: 1 }],
] as const)('the attribute %j and the content type %j', ([attribute, contentType, payload]) => {
  const headers = {
    ...EVENT,
    ...(attribute !== undefined && { 'ce-datacontenttype': attribute }),
    ...(contentType !== undefined && { 'content-type': contentType }),
  }
  expect(fromNats(natsMessage(headers)).payload).toEqual(payload)
})

test.for<[string, string]>([
  ['Euro%20%E2%82%AC%20%F0%9F%98%80', 'Euro € \u{1F600}'],
  ['%e2%82%ac', '€'],
  ['%2541', '%41'],
  ['100%', '100%'],
  ['%zz%41%4', '%zzA%4'],
  ['é%C3%A9+', 'éé+'],
  [String.raw`"a b\"c\\%41"`, String.raw`a b"c\A`],
  ['"a"b"', '"a"b"'],
  ['"', '"'],
  ['%22a%22', '"a"'],
])('the value %s is %s', ([value, expected]) => {
  expect(fromNats(natsMessage({ ...EVENT, 'ce-id': value })).id).toBe(expected)
})

test.for(['%C0%A0', '%ED%A0%80', '%FF', 'a%E2%82', 'a%0Ab', '%00', '%C2%85', '%EF%BF%BF', '"a\tb"'])(
  'the value %j makes the message unreadable, and shows in no error',
  (value) => {
    for (const name of ['ce-id', 'Ce-Tenant', 'ce-datacontenttype']) {
      const message = natsMessage({ 'Nats-Msg-Id': 'm', 'txbox-key': 'k', ...EVENT, [name]: value })
      const { thrown } = outcomeOf(() => fromNats(message)) as { thrown: InvalidMessageError }
      expect(thrown).toBeInstanceOf(InvalidMessageError)
      expectRefusal(thrown, 'TXBOX_INVALID_MESSAGE')
      expect(thrown.message).toContain(`'${name.toLowerCase()}'`)
      expect(thrown.message).not.toContain(value)
      const { undecodable, key, message: read } = delivered(message)
      expect(undecodable).toEqual(thrown)
      expect([read.id, key, read.headers]).toEqual(['m', 'k', { ...EVENT, [name]: value }])
      expect(Buffer.from(read.payload as Uint8Array).toString()).toBe('{"n":1}')
    }
  },
)

test('whatever an event has in its attributes, a handler gets it as it was', async () => {
  const unit = fc.oneof(
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }),
    fc.constantFrom('%', '"', '\\', ' ', '%41', '%FF', '+', '\u{1F680}'),
  )
  const text = fc.string({ unit, maxLength: 20 })
  const property = fc.asyncProperty(text, text, text, text, async (id, key, correlationId, tenant) => {
    const fields = { id: `a${id}`, type: `"${id}"`, key, correlationId, headers: { tenant } }
    const { headers, payload } = await eventOf(fields, NATS, { extensions: ['tenant'] })
    for (const value of Object.values(headers)) expect(value).toMatch(/^[!-~]*$/)
    const { message, key: orderedBy } = delivered(natsMessage(headers, Buffer.from(payload).toString()))
    expect(message).toMatchObject({ id: fields.id, type: fields.type, headers: fields.headers })
    expect([orderedBy, message.correlationId]).toEqual([key || undefined, correlationId || undefined])
  })
  await fc.assert(property)
})

test('whatever the headers of another producer are, they make a message or a refusal', () => {
  const names = [
    'ce-id',
    'CE-Id',
    'ce-time',
    'ce-datacontenttype',
    'ce-partitionkey',
    'ce-nats-rollup',
    'ce-a',
  ]
  const name = fc.oneof(fc.constantFrom(...names, 'ce-__proto__', '__proto__', 'content-type'), hostileText())
  const value = fc.oneof(
    hostileText(),
    hostileText().map((text) => `%${text}%C3%A9`),
    hostileText().map((text) => `"${text}\\"`),
  )
  const property = fc.property(fc.array(fc.tuple(name, value), { maxLength: 5 }), (given) => {
    const headers = [
      ['ce-specversion', ['1.0']] as const,
      ...given.map(([each, text]) => [each, [text]] as const),
    ]
    const message = { subject: 'orders', data: Buffer.from('{"n":1}'), headers }
    const outcome = outcomeOf(() => fromNats(message))
    expect(() => delivered(message)).not.toThrow()
    if ('thrown' in outcome) return expectRefusal(outcome.thrown, 'TXBOX_INVALID_MESSAGE')
    for (const left of Object.keys(outcome.result.headers!))
      expect(left).not.toMatch(/^(?:ce-[a-z\d]+$|nats-)/i)
  })
  fc.assert(property, { numRuns: 1000 })
})
