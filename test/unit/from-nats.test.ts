import { expect, test } from 'vitest'
import { InvalidMessageError, fromNats, natsSource, type NatsMessage } from '@txbox/nats'
import { failure } from '../support/subjects/publishing.ts'

function message(
  headers: Record<string, string[]>,
  data = '{"n":1}',
  more: Partial<NatsMessage> = {},
): NatsMessage {
  return { data: Buffer.from(data), headers: new Map(Object.entries(headers)), ...more }
}

const ID = { 'Nats-Msg-Id': ['7'] }

test('fields come from their headers, and others are headers', () => {
  const read = fromNats(
    message({
      ...ID,
      'txbox-type': ['order.paid'],
      'txbox-key': ['k'],
      'txbox-correlation-id': ['c'],
      'txbox-time': ['2026-03-04T05:06:07.890Z'],
      'content-type': ['text/plain'],
      tenant: ['south', 'north'],
      empty: [''],
    }),
  )
  expect(read).toEqual({
    id: '7',
    type: 'order.paid',
    correlationId: 'c',
    time: new Date('2026-03-04T05:06:07.890Z'),
    headers: { tenant: 'north', empty: '' },
    payload: '{"n":1}',
  })
})

test('no header that a server obeys is left, so that the headers can be published again', () => {
  const read = fromNats(
    message({ ...ID, 'Nats-Expected-Stream': ['S'], 'nats-rollup': ['all'], 'Nats-Stream': ['S'], a: ['b'] }),
  )
  expect(read.headers).toEqual({ a: 'b' })
})

test('the id is that of txbox, or else the id by which JetStream recognizes copies', () => {
  expect(fromNats(message({ 'Nats-Msg-Id': ['7 orders.paid'], 'txbox-id': ['7'] }))).toMatchObject({
    id: '7',
    headers: {},
  })
  expect(fromNats(message({ 'Nats-Msg-Id': ['7'], 'txbox-id': [''] })).id).toBe('7')
})

test('the time is that of the sender, or when JetStream stored the message', () => {
  const time = new Date('2026-01-01T00:00:00Z')
  expect(fromNats(message(ID, '1', { time })).time).toEqual(time)
  expect(fromNats(message({ ...ID, 'txbox-time': ['yesterday'] }, '1', { time })).time).toEqual(time)
  expect(fromNats(message(ID)).time).toBeUndefined()
  expect(fromNats(message(ID, '1', { time: new Date(Number.NaN) })).time).toBeUndefined()
})

test('a payload is read by its content type', () => {
  const bytes = fromNats<Uint8Array>(message({ ...ID, 'content-type': ['application/x'] }, 'abc')).payload
  expect(Buffer.isBuffer(bytes)).toBe(false)
  expect(Buffer.from(bytes).toString()).toBe('abc')
  expect(fromNats(message(ID)).payload).toEqual({ n: 1 })
  const zipped = { ...ID, 'content-type': ['application/json'], 'content-encoding': ['gzip'] }
  expect(() => fromNats(message(zipped))).toThrow(/content encoding 'gzip'/)
})

test.for([
  ['no message', undefined],
  ['no data', { headers: new Map() }],
  ['no headers', { data: Buffer.from('1') }],
  ['no id', message({ a: ['b'] })],
  ['an empty id', message({ 'Nats-Msg-Id': [''] })],
  ['an id in another case', message({ 'nats-msg-id': ['7'] })],
  ['data that are no JSON', message(ID, '{')],
] as const)('%s is an InvalidMessageError', ([, wrong]) => {
  expect(() => fromNats(wrong as NatsMessage)).toThrow(InvalidMessageError)
})

const SOURCE = { servers: 'nats://127.0.0.1:9', stream: 'ORDERS', consumer: 'billing' }

test.for([
  ['no stream', { stream: undefined }],
  ['a stream with a dot', { stream: 'a.b' }],
  ['a consumer with a wildcard', { consumer: 'a*' }],
  ['an unknown option', { durable: 'a' }],
  ['an unknown member', { declare: { filterSubject: 'a' } }],
  ['a filter with a blank', { declare: { filterSubjects: ['a b'] } }],
  ['too short a lease', { declare: { ackWaitMs: 499 } }],
  ['a lease with a fraction', { declare: { ackWaitMs: 1000.5 } }],
  ['none pending', { declare: { maxAckPending: 0 } }],
  ['another beginning', { declare: { from: 'now' } }],
  ['a key that is text', { key: 'a' }],
] as const)('natsSource refuses %s', ([, change]) => {
  expect(() => natsSource({ ...SOURCE, ...change } as never)).toThrow(
    expect.objectContaining({ code: 'TXBOX_INVALID_OPTION' }),
  )
})

test('a source whose server is away says so, without its login', async () => {
  const source = natsSource({ ...SOURCE, user: 'shop', password: 'hidden-word' })
  expect(source.name).toBe('nats ORDERS/billing')
  const error = await failure(source.open({ prefetch: 1, failed: () => undefined }))
  expect(error).toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE', retryable: true })
  expect(error.message).toContain('Cannot connect to NATS at 127.0.0.1:9: connection refused')
})
