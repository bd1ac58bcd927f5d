import { expect, test } from 'vitest'
import { fromSqs, type SqsMessage } from '@txbox/sqs'

const ATTRIBUTES = {
  'txbox-id': 'm-1',
  'txbox-type': 'order.paid',
  'txbox-correlation-id': 'c-1',
  'txbox-time': '2026-03-04T05:06:07.890Z',
  'content-type': 'application/json',
  headers: '{"tenant":"north"}',
}

const EXPECTED = {
  id: 'm-1',
  type: 'order.paid',
  correlationId: 'c-1',
  time: new Date('2026-03-04T05:06:07.890Z'),
  headers: { tenant: 'north' },
  payload: { n: 1 },
}

function message(attributes: Readonly<Record<string, string>>, more: Partial<SqsMessage> = {}): SqsMessage {
  const given = Object.entries(attributes).map(([name, StringValue]) => [
    name,
    { DataType: 'String', StringValue },
  ])
  return { MessageId: '7', Body: '{"n":1}', MessageAttributes: Object.fromEntries(given), ...more }
}

test('a message of the AWS SDK', () => {
  expect(fromSqs(message(ATTRIBUTES))).toEqual(EXPECTED)
})

test('a record of Lambda, whose names begin with small letters', () => {
  const messageAttributes = Object.fromEntries(
    Object.entries(ATTRIBUTES).map(([name, stringValue]) => [name, { dataType: 'String', stringValue }]),
  )
  const record = { messageId: '7', receiptHandle: 'r', body: '{"n":1}', messageAttributes, attributes: {} }
  expect(fromSqs(record)).toEqual(EXPECTED)
})

test('an envelope of SNS', () => {
  const MessageAttributes = Object.fromEntries(
    Object.entries(ATTRIBUTES).map(([name, Value]) => [name, { Type: 'String', Value }]),
  )
  const envelope = { Type: 'Notification', TopicArn: 'arn:aws:sns:eu-central-1:1:t', Message: '{"n":1}' }
  expect(fromSqs(message({}, { Body: JSON.stringify({ ...envelope, MessageAttributes }) }))).toEqual(EXPECTED)
})

test('a body that looks like an envelope, but has an id of its own, is a payload', () => {
  const body = { Type: 'Notification', TopicArn: 'a', Message: 'b' }
  expect(fromSqs(message({ 'txbox-id': 'm-1' }, { Body: JSON.stringify(body) })).payload).toEqual(body)
})

test('without a time of its own, a message has the time at which it was sent', () => {
  const sent = { Attributes: { SentTimestamp: '1700000000000' } }
  expect(fromSqs(message({ 'txbox-id': 'a' }, sent)).time).toEqual(new Date(1_700_000_000_000))
  expect(fromSqs(message({ 'txbox-id': 'a', 'txbox-time': 'soon' }, sent)).time).toEqual(
    new Date(1_700_000_000_000),
  )
  expect(fromSqs(message({ 'txbox-id': 'a' })).time).toBe(undefined)
})

test('attributes of others are headers, with numbers and without bytes', () => {
  const MessageAttributes = {
    'txbox-id': { DataType: 'String', StringValue: 'a' },
    size: { DataType: 'Number', StringValue: '7' },
    photo: { DataType: 'Binary', BinaryValue: Uint8Array.of(1) },
  }
  expect(fromSqs({ Body: '{}', MessageAttributes }).headers).toEqual({ size: '7' })
})

test.for([
  ['no message', undefined],
  ['a message without a body', { MessageId: '1' }],
  ['a message without an id', message({})],
  ['an empty id', message({ 'txbox-id': '' })],
  ['a payload that is no JSON', message(ATTRIBUTES, { Body: 'no JSON' })],
  ['headers that are no JSON', message({ ...ATTRIBUTES, headers: 'tenant' })],
  ['headers that are a list', message({ ...ATTRIBUTES, headers: '[]' })],
  ['headers that are no texts', message({ ...ATTRIBUTES, headers: '{"a":1}' })],
  ['fields that are no JSON', message({ ...ATTRIBUTES, 'txbox-fields': '{' })],
  ['a body that is no base64', message({ ...ATTRIBUTES, 'txbox-encoding': 'base64' })],
  ['an unknown encoding', message({ ...ATTRIBUTES, 'txbox-encoding': 'gzip' })],
  ['JSON that is compressed', message({ ...ATTRIBUTES, 'content-encoding': 'gzip' })],
] as const)('%s is an InvalidMessageError', ([, given]) => {
  expect(() => fromSqs(given as never)).toThrow(expect.objectContaining({ code: 'TXBOX_INVALID_MESSAGE' }))
})
