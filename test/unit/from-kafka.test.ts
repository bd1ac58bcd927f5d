import { expect, test } from 'vitest'
import { fromKafka, type KafkaRecord } from '@txbox/kafka'

const HEADERS = [
  ['tenant', 'north'],
  ['txbox-type', "the message's own"],
  ['txbox-id', 'm-1'],
  ['txbox-type', 'order.paid'],
  ['txbox-correlation-id', 'c-1'],
  ['content-type', 'application/json'],
  ['txbox-time', '2026-03-04T05:06:07.890Z'],
] as const

const EXPECTED = {
  id: 'm-1',
  type: 'order.paid',
  correlationId: 'c-1',
  time: new Date('2026-03-04T05:06:07.890Z'),
  headers: { tenant: 'north', 'txbox-type': "the message's own" },
  payload: { n: 1 },
}

function record(headers: unknown, more: Partial<KafkaRecord> = {}): KafkaRecord {
  return { value: Buffer.from('{"n":1}'), timestamp: 1_700_000_000_000n, headers, ...more }
}

test('a record of @platformatic/kafka, whose headers are a map of bytes', () => {
  const headers = new Map(HEADERS.map(([name, value]) => [Buffer.from(name), Buffer.from(value)]))
  expect(fromKafka(record(headers))).toEqual(EXPECTED)
})

test('a record of kafkajs, whose headers of one name are a list', () => {
  const headers = {
    ...Object.fromEntries(HEADERS.map(([name, value]) => [name, Buffer.from(value)])),
    'txbox-type': [Buffer.from("the message's own"), Buffer.from('order.paid')],
    nothing: undefined,
  }
  expect(fromKafka(record(headers, { timestamp: '1700000000000' }))).toEqual(EXPECTED)
})

test.for([
  ['text/plain', 'Zoë', 'Zoë'],
  ['application/octet-stream', 'ab', new Uint8Array([97, 98])],
  ['', '"text"', 'text'],
])('a value of the content type %j', ([contentType, text, expected]) => {
  const headers = { 'txbox-id': 'm-1', ...(contentType !== '' && { 'content-type': contentType }) }
  const { payload, time } = fromKafka(record(headers, { value: Buffer.from(text as string) }))
  expect(payload).toEqual(expected)
  expect(time).toEqual(new Date(1_700_000_000_000))
})

test('an event has attributes of letters and digits; a header with another name stays one', () => {
  const odd = { 'ce_txbox-id': 'x', ce_: 'y' }
  const { id, headers } = fromKafka(record({ ce_specversion: '1.0', ce_id: '%41', ce_tenant: '%FF', ...odd }))
  expect({ id, headers }).toEqual({ id: '%41', headers: { ...odd, tenant: '%FF' } })
})

test('a tombstone has the payload null', () => {
  expect(fromKafka(record({ 'txbox-id': 'm-1' }, { value: null })).payload).toBe(null)
})

test.for([
  ['no id', record({})],
  ['an empty id', record({ 'txbox-id': '' })],
  ['no headers', record(undefined)],
  ['a value that is no JSON', record({ 'txbox-id': 'm-1' }, { value: Buffer.from('{') })],
  ['compressed text', record({ 'txbox-id': 'm-1', 'content-encoding': 'gzip' })],
  ['a value that is text', record({ 'txbox-id': 'm-1' }, { value: 'text' as never })],
  ['no record', undefined as never],
] as const)('%s is an InvalidMessageError', ([, given]) => {
  expect(() => fromKafka(given)).toThrow(expect.objectContaining({ code: 'TXBOX_INVALID_MESSAGE' }))
})

test('a record that Debezium has published has the headers of its message in one header, which is opened', () => {
  const text = (value: string) => Buffer.from(value)
  const headers = new Map<Buffer, Buffer | undefined>([
    [text('txbox-id'), text('m-1')],
    [text('txbox-key'), text('customer 7')],
    [text('txbox-topic'), text('orders')],
    [text('txbox-type'), undefined],
    [text('txbox-time'), text('2026-03-04T05:06:07.890Z')],
    [text('headers'), text('{"tenant":"north","x-ü":"✓","n":1}')],
  ])
  const record = { value: text('{}'), headers, timestamp: 0n }
  expect(fromKafka(record)).toEqual({
    ...{ id: 'm-1', payload: {}, headers: { tenant: 'north', 'x-ü': '✓' } },
    time: new Date('2026-03-04T05:06:07.890Z'),
  })
  // Elsewhere, the name is one like any other; and what is no object stays as it is.
  const own = new Map([
    [text('txbox-id'), text('m-1')],
    [text('headers'), text('{"tenant":"north"}')],
  ])
  expect(fromKafka({ value: text('{}'), headers: own }).headers).toEqual({ headers: '{"tenant":"north"}' })
  const odd = new Map([
    ...own,
    [text('txbox-topic'), text('orders')],
    [text('headers'), text('[1]')],
  ] as const)
  expect(fromKafka({ value: text('{}'), headers: odd }).headers).toEqual({ headers: '[1]', tenant: 'north' })
})
