import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  InvalidMessageError,
  InvalidOptionError,
  InvalidSignatureError,
  fromWebhook,
  type InboxMessage,
  type WebhookScheme,
} from '@txbox/webhook'
import { SCHEMES, optionsOf, signed, withHeader } from '../support/subjects/signed-webhooks.ts'

const sourced = (scheme: WebhookScheme): { source?: string } =>
  scheme === 'standard' ? { source: 'crm' } : {}
const read = (scheme: WebhookScheme, request = signed(scheme) as Parameters<typeof fromWebhook>[0]) =>
  fromWebhook(request, { ...optionsOf(scheme), ...sourced(scheme) })

const EXPECTED: Readonly<Record<WebhookScheme, Partial<InboxMessage>>> = {
  standard: { id: 'msg_1', source: 'crm', type: 'contact.created', time: '2026-11-03T20:26:10.344522Z' },
  stripe: { id: 'evt_1', source: 'stripe', type: 'invoice.paid', time: new Date(1_793_738_400_000) },
  github: {
    id: '72d3162e-cc78-11e3-81ab-4c9367dc0958',
    source: 'github',
    type: 'issues',
    headers: { 'x-github-event': 'issues' },
  },
  slack: { id: 'Ev1', source: 'slack', type: 'app_mention', time: new Date(1_793_738_400_000) },
  shopify: {
    id: 'orders/create:98880550-7158-44d4-b7cd-2c97c8a091b5',
    source: 'shopify',
    type: 'orders/create',
    time: '2026-11-03T18:00:00.000Z',
    headers: { 'x-shopify-topic': 'orders/create' },
  },
}

describe.for(SCHEMES)('%s', (scheme) => {
  test('W2 the message has the id that is the same in each retry, the source, and the payload', () => {
    const request = signed(scheme)
    const message = read(scheme, request)
    expect(message).toEqual({
      headers: {},
      ...EXPECTED[scheme],
      payload: JSON.parse(request.body.toString()),
      body: request.body,
    })
    const later = signed(scheme, { at: Math.floor(Date.now() / 1000) + 60 })
    expect(read(scheme, later).id).toBe(message.id)
  })

  test('W2 the payload is what the content type says, and the bytes are kept', () => {
    const bytes = Buffer.from('{"id":"evt_1","event_id":"Ev1","name":"Zoë","n":12345678901234567890}')
    for (const contentType of [
      'application/json',
      'application/json; charset=utf-8',
      'application/vnd.api+json',
    ]) {
      const message = read(scheme, signed(scheme, { body: bytes, headers: { 'content-type': contentType } }))
      expect(message.payload).toMatchObject({ name: 'Zoë' })
      expect(Buffer.from(message.body).equals(bytes)).toBe(true)
    }
    const { 'content-type': _, ...untyped } = signed(scheme, { body: bytes }).headers
    expect(read(scheme, { headers: untyped, body: bytes }).payload).toMatchObject({ name: 'Zoë' })
  })

  test('W3 a genuine body that cannot be read is an InvalidMessageError that does not quote the body', () => {
    for (const body of ['{"card":4242', '', '\u{FFFF}', Uint8Array.of(0xff, 0xfe)]) {
      const call = (): unknown => read(scheme, signed(scheme, { body }))
      expect(call).toThrow(InvalidMessageError)
      expect(call).not.toThrow(/4242/)
    }
    const zipped = signed(scheme, { headers: { 'content-encoding': 'gzip' } })
    expect(() => read(scheme, zipped)).toThrow("content encoding 'gzip'")
  })

  test('W1 W2 the signature is checked before the id', () => {
    const { headers } = signed(scheme, { body: '{}' })
    const forged = { headers, body: Buffer.from('{"n":1}') }
    expect(() => read(scheme, forged)).toThrow(InvalidSignatureError)
  })

  test('W2 property: every JSON value without an id is an InvalidMessageError, or a message', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        try {
          expect(read(scheme, signed(scheme, { body: JSON.stringify(value) })).id).not.toBe('')
        } catch (error) {
          expect(error).toBeInstanceOf(InvalidMessageError)
        }
      }),
    )
  })

  test('N2 credentials, cookies, signatures and headers of HTTP itself are no headers of the message', () => {
    const headers = {
      authorization: 'Bearer hidden-word',
      cookie: 'session=hidden-word',
      'proxy-authorization': 'Basic hidden-word',
      host: 'shop.example',
      'content-length': '7',
      'user-agent': 'Provider/1.0',
      'sec-fetch-mode': 'cors',
      'X-Tenant': 'north',
    }
    expect(read(scheme, signed(scheme, { headers })).headers).toEqual({
      ...EXPECTED[scheme].headers,
      'x-tenant': 'north',
    })
  })

  test('W2 the source can be named', () => {
    const options = { ...optionsOf(scheme), source: 'eu shop' }
    expect(fromWebhook(signed(scheme), options).source).toBe('eu shop')
    for (const source of ['', 7, 'x'.repeat(256), null]) {
      if (source === null && scheme !== 'standard') continue
      expect(() => fromWebhook(signed(scheme), { ...options, source: source as never })).toThrow(
        InvalidOptionError,
      )
    }
  })
})

test('W2 a source must be named for Standard Webhooks, so that ids of two senders never meet', () => {
  expect(() => fromWebhook(signed('standard'), optionsOf('standard'))).toThrow(
    /'source' is missing.*name the sender/,
  )
})

test.for<[WebhookScheme, string[]]>([
  ['standard', ['webhook-id']],
  ['github', ['x-github-delivery']],
  ['shopify', ['x-shopify-event-id', 'x-shopify-webhook-id']],
])('W2 %s without %j is an InvalidMessageError, which names the header', ([scheme, names]) => {
  const request = names.reduce(
    (without, name) => withHeader(without as never, name, undefined),
    signed(scheme) as Parameters<typeof fromWebhook>[0],
  )
  expect(() => read(scheme, request)).toThrow(InvalidMessageError)
  expect(() => read(scheme, request)).toThrow(names[0])
})

test.for<[WebhookScheme, string]>([
  ['stripe', '{"type":"invoice.paid"}'],
  ['stripe', '{"id":7}'],
  ['stripe', 'null'],
  ['slack', '{"type":"url_verification","challenge":"3eZbrw1a"}'],
])('W2 %s without an id in %s is an InvalidMessageError', ([scheme, body]) => {
  expect(() => read(scheme, signed(scheme, { body }))).toThrow(
    /has no id: its member '(id|event_id)' of the body/,
  )
})

test('W2 the time that a header names is that of the message if it is in RFC 3339, and else that of the body', () => {
  const time = (header: string) =>
    read('standard', signed('standard', { headers: { 'txbox-time': header } })).time
  expect(time('2026-11-03T20:26:11.000Z')).toBe('2026-11-03T20:26:11.000Z')
  for (const odd of ['yesterday', '1793738400', '2026-13-03T20:26:11Z', '2026-11-03']) {
    expect(time(odd)).toBe(EXPECTED.standard.time)
  }
})

test('W2 Shopify: the event id alone without a topic, and else the id of the webhook', () => {
  const request = signed('shopify')
  const event = request.headers['x-shopify-event-id']
  expect(read('shopify', withHeader(request, 'x-shopify-topic', undefined)).id).toBe(event)
  expect(read('shopify', withHeader(request, 'x-shopify-event-id', undefined)).id).toBe(
    request.headers['x-shopify-webhook-id'],
  )
})

test('W2 GitHub sends JSON in a form, if the webhook is configured so', () => {
  const form = new URLSearchParams({ payload: '{"action":"opened","title":"a + b & c"}' }).toString()
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  expect(read('github', signed('github', { body: form, headers })).payload).toEqual({
    action: 'opened',
    title: 'a + b & c',
  })
})

test('W1 the content type, which is not signed, does not turn a signed body into other content', () => {
  const title = `a&payload=${encodeURIComponent('{"action":"deleted"}')}&b`
  const body = JSON.stringify({ action: 'opened', title })
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  expect(read('github', signed('github', { body, headers: form })).payload).not.toHaveProperty('action')
  for (const other of [` payload=${title}`, `b=1&payload=%7B%7D`, `Payload=%7B%7D`, '']) {
    expect(read('github', signed('github', { body: other, headers: form })).payload).toBeInstanceOf(
      Uint8Array,
    )
  }
  // JSON is in UTF-8 (RFC 8259), whatever charset is named.
  const cafe = JSON.stringify({ action: 'opened', title: 'Café 日本' })
  for (const charset of ['utf-8', 'windows-1252', 'utf-16le', 'shift_jis']) {
    const headers = { 'content-type': `application/json; charset=${charset}` }
    expect(read('github', signed('github', { body: cafe, headers })).payload).toEqual(JSON.parse(cafe))
  }
})

test('W2 thin events of Stripe have their time in RFC 3339', () => {
  const body = '{"id":"evt_2","object":"v2.core.event","created":"2026-09-17T06:20:52.246Z"}'
  expect(read('stripe', signed('stripe', { body })).time).toBe('2026-09-17T06:20:52.246Z')
  for (const created of ['"yesterday"', '1e300', 'true', '{}']) {
    const odd = signed('stripe', { body: `{"id":"evt_2","created":${created}}` })
    expect(read('stripe', odd)).not.toHaveProperty('time')
  }
})
