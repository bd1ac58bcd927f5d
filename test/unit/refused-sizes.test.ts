import { describe, expect, test } from 'vitest'
import { PermanentError, type OutboxMessage } from '@txbox/core'
import { outgoingRecord } from '../../packages/kafka/src/publish/outgoing-record.ts'
import { outgoingMessage as natsMessage } from '../../packages/nats/src/publish/outgoing-message.ts'
import { outgoingJob } from '../../packages/pg-boss/src/publish/outgoing-job.ts'
import { headersFlaw } from '../../packages/rabbitmq/src/publish/header-frame.ts'
import { outgoingMessage as rabbitmqMessage } from '../../packages/rabbitmq/src/publish/outgoing-message.ts'
import { outgoingEntry } from '../../packages/redis/src/publish/outgoing-entry.ts'
import { destinationOfMessage } from '../../packages/sqs/src/publish/destination.ts'
import { outgoingMessage as sqsMessage } from '../../packages/sqs/src/publish/outgoing-message.ts'
import { prepared } from '../../packages/webhook/src/publish/attempt.ts'
import { wireHeaders } from '../../packages/webhook/src/publish/wire-headers.ts'
import { outboxMessage } from '../support/subjects/publishing.ts'

const ID = 'order-9'
const message = (fields: Partial<OutboxMessage>): OutboxMessage =>
  outboxMessage({ id: ID, topic: 'orders', ...fields })
const large = message({ payload: Buffer.alloc(101) })
const topic = (characters: number): string => 'é'.repeat(characters)

function textOf(prepare: () => unknown): string {
  try {
    prepare()
  } catch (error) {
    expect(error).toBeInstanceOf(PermanentError)
    return (error as Error).message
  }
  throw new Error('the message is not refused')
}

const rabbitmq = (fields: Partial<OutboxMessage>) => () => rabbitmqMessage(message(fields), 100)
const sqs = (name: string) => () => destinationOfMessage(ID, name)
const webhook = {
  ...{ url: undefined, headers: {}, secretOf: undefined, allow: () => true, timeoutMs: 1000 },
  ...{ send: () => Promise.reject(new Error('sent')), maxMessageBytes: 100 },
}
const ARN = 'arn:aws:sns:eu-central-1:123456789012:'
const URL_OF = 'https://sqs.eu-central-1.amazonaws.com/123456789012/'

/** The field as it is called in the text, its size, and the limit. */
const TOO_LARGE: readonly (readonly [string, string, number, number, () => unknown])[] = [
  ['kafka', 'payload', 101, 100, () => outgoingRecord(large, 'orders', 100)],
  ['kafka', 'topic', 250, 249, () => outgoingRecord(large, topic(250), 200)],
  [
    'nats',
    'payload',
    101,
    200,
    () => natsMessage(large, 'orders', { maxMessageBytes: 200, stream: undefined }),
  ],
  [
    'nats',
    'subject',
    2002,
    2000,
    () => natsMessage(large, topic(1001), { maxMessageBytes: 1e6, stream: undefined }),
  ],
  [
    ...(['nats', 'headers', 70_113, 65_535] as const),
    () => {
      const fields = { contentType: '', headers: { 'some-header': 'x'.repeat(70_000) } }
      return natsMessage(message(fields), 'orders', { maxMessageBytes: 1e6, stream: undefined })
    },
  ],
  ['redis', 'payload', 101, 100, () => outgoingEntry(large, 'orders', 100)],
  ['sqs', 'payload', 101, 100, () => sqsMessage(large, { maxMessageBytes: 100, attributes: [] })],
  ['sqs', 'topic', 81, 80, sqs('q'.repeat(81))],
  ['sqs', 'topic', 81, 80, sqs(`${'q'.repeat(76)}.fifo`)],
  ['sqs', 'topic', 81, 80, sqs(`${URL_OF}${'q'.repeat(81)}`)],
  ['sqs', 'topic', 2049, 2048, sqs(`https://sqs.example/${'a/'.repeat(1014)}q`)],
  ['sqs', 'topic', 257, 256, sqs(`${ARN}${'t'.repeat(257)}`)],
  ['sqs', 'topic', 257, 256, sqs(`${ARN}${'t'.repeat(252)}.fifo`)],
  [
    ...(['pg-boss', 'payload', 101, 100] as const),
    () => outgoingJob(large, { queue: 'q', data: 'envelope', options: {}, maxMessageBytes: 100 }),
  ],
  [
    ...(['pg-boss', 'queue', 256, 255] as const),
    () => outgoingJob(large, { queue: topic(256), data: 'envelope', options: {}, maxMessageBytes: 200 }),
  ],
  ['rabbitmq', 'payload', 101, 100, () => rabbitmqMessage(large, 100)],
  ...(['topic', 'type', 'correlation id', 'content type', 'content encoding'] as const).map((name) => {
    const field = name.replace(/ (.)/, (_, letter: string) => letter.toUpperCase())
    return ['rabbitmq', name, 256, 255, rabbitmq({ [field]: topic(128) })] as const
  }),
  [
    ...(['rabbitmq', 'header', 256, 255] as const),
    () => refusedBy(headersFlaw(rabbitmqMessage(message({ headers: { [topic(128)]: 'x' } }), 100))),
  ],
  [
    ...(['rabbitmq', 'headers', 70_056, 65_536] as const),
    () => refusedBy(headersFlaw(rabbitmqMessage(message({ headers: { header: 'x'.repeat(70_000) } }), 100))),
  ],
  ['webhook', 'payload', 101, 100, () => prepared(large, webhook)],
]

/** The channel puts the flaw behind the id. */
function refusedBy(flaw: string | undefined): never {
  throw new PermanentError(`Message ${ID}: ${flaw}`)
}

describe('a message that is too large for its protocol is refused before anything is sent', () => {
  test.for(
    TOO_LARGE.map(([publisher, field, size, limit, prepare]) => ({ publisher, field, size, limit, prepare })),
  )('$publisher: the text names id, $field, $size and $limit', ({ field, size, limit, prepare }) => {
    const text = textOf(prepare)
    expect(text).toContain(ID)
    expect(text).toMatch(new RegExp(`\\b${field}\\b`))
    expect(text).toMatch(new RegExp(`\\b${size}\\b`))
    expect(text).toMatch(new RegExp(`\\b${limit}\\b`))
    expect(text.length).toBeLessThan(500)
  })

  test('the largest names of SQS and SNS are names', () => {
    const names = ['q'.repeat(80), `${'q'.repeat(75)}.fifo`, 't'.repeat(256), `${'t'.repeat(251)}.fifo`]
    for (const [n, name] of names.entries()) {
      expect(destinationOfMessage(ID, n < 2 ? name : `${ARN}${name}`).name).toContain(name)
    }
  })
})

describe('a field that HTTP cannot carry is refused by its own name', () => {
  test.for(['type', 'key', 'correlation id', 'content type', 'content encoding'])('%s', (name) => {
    const field = name.replace(/ (.)/, (_, letter: string) => letter.toUpperCase())
    const text = textOf(() => wireHeaders(message({ [field]: 'a\nb' }), {}))
    expect(text).toContain(`Message ${ID} `)
    expect(text).toContain(`its ${name} `)
  })
})
