import { inject } from 'vitest'
import { publisherContract, type ArrivedMessage, type ReadMessage } from '@txbox/testing'
import { fromSqs, sqsPublisher } from '@txbox/sqs'
import type { Message } from '@aws-sdk/client-sqs'
import { networkUnderTest, testContract } from '../../support/subjects/contract-tests.ts'
import { REGION, attributeOf, endpointAt, useSqs } from '../sqs-under-test.ts'

const sqs = useSqs()
const fifo = inject('queues') === 'fifo'
const LARGEST_BYTES = 180_000

const wrongOptions = {
  'an unknown option': () => sqsPublisher({ queue: 'a' } as never),
  'a client that is none': () => sqsPublisher({ client: {} as never }),
  'a client of SNS that is none': () => sqsPublisher({ snsClient: 'sns' as never }),
  'a region that is none': () => sqsPublisher({ region: 'eu central' }),
  'an endpoint without a scheme': () => sqsPublisher({ endpoint: '127.0.0.1:9324' }),
  'an endpoint with a password': () => sqsPublisher({ endpoint: 'http://user:secret@127.0.0.1' }),
  'a destination that is text': () => sqsPublisher({ destination: 'orders' as never }),
  'four attributes': () => sqsPublisher({ attributes: ['a', 'b', 'c', 'd'] }),
  'an attribute twice': () => sqsPublisher({ attributes: ['a', 'a'] }),
  'an attribute that AWS reserves': () => sqsPublisher({ attributes: ['AWS.trace'] }),
  'an attribute that txbox has': () => sqsPublisher({ attributes: ['content-type'] }),
  'an attribute with a blank': () => sqsPublisher({ attributes: ['a b'] }),
  'a check of another service': () => sqsPublisher({ check: 'SNS' as never }),
  'no call at a time': () => sqsPublisher({ concurrency: 0 }),
  'too many calls': () => sqsPublisher({ concurrency: 257 }),
  'too short a time': () => sqsPublisher({ confirmTimeoutMs: 9 }),
  'too long a time': () => sqsPublisher({ connectTimeoutMs: 3_600_001 }),
  'too large a limit': () => sqsPublisher({ maxMessageBytes: 1_048_577 }),
}

function payloadIn(message: Message): Uint8Array {
  const encoding = attributeOf(message, 'txbox-encoding')
  if (encoding === 'empty') return new Uint8Array(0)
  return Buffer.from(message.Body ?? '', encoding === 'base64' ? 'base64' : 'utf8')
}

/** The fields, wherever they are. */
function fieldsIn(message: Message): Readonly<Record<string, string>> {
  const own = Object.entries(message.MessageAttributes ?? {}).map(([name, { StringValue }]) => [
    name,
    StringValue,
  ])
  const moved = JSON.parse(attributeOf(message, 'txbox-fields') ?? '{}') as Record<string, string>
  return { ...Object.fromEntries(own), ...moved } as Record<string, string>
}

function arrived(message: Message): ArrivedMessage {
  return { id: fieldsIn(message)['txbox-id'] ?? '', payload: payloadIn(message) }
}

function readBack(message: Message): ReadMessage {
  const fields = fieldsIn(message)
  return {
    id: fields['txbox-id']!,
    type: fields['txbox-type'],
    key: fields['txbox-key'],
    correlationId: fields['txbox-correlation-id'],
    contentType: fields['content-type'],
    createdAt: new Date(fields['txbox-time'] ?? ''),
    headers: JSON.parse(fields['headers'] ?? '{}') as Record<string, string>,
  }
}

const cases = publisherContract(
  {
    ordering: 'per-key',
    answerTimeoutMs: 2000,
    wrongOptions,
  },
  async () => {
    const network = await sqs.current.network()
    const goodTopic = await sqs.current.queue({ fifo })
    return {
      publisher: sqsPublisher({
        ...{ endpoint: endpointAt(network), region: REGION },
        ...{ confirmTimeoutMs: 2000, maxMessageBytes: LARGEST_BYTES },
      }),
      goodTopic,
      badTopic: `${sqs.current.name('missing')}${fifo ? '.fifo' : ''}`,
      network: networkUnderTest(network),
      tooLarge: LARGEST_BYTES + 1,
      poison: {
        'a topic with a blank': { topic: 'a b' },
        'a topic that is too long': { topic: 'x'.repeat(81) },
        'a topic that is the ARN of a queue': { topic: 'arn:aws:sqs:eu-central-1:123456789012:orders' },
        'a URL with a password': { topic: 'http://user:secret@127.0.0.1/1/orders' },
        'a header that is no text': { headers: { a: 1 as never } },
        'no time of creation': { createdAt: new Date(NaN) },
        'headers that are too large': { headers: { a: 'x'.repeat(1_048_576) } },
      },
      unresolved: sqsPublisher({
        ...{ endpoint: 'http://nowhere.invalid', region: REGION },
        confirmTimeoutMs: 2000,
      }),
      arrived: async () => (await sqs.current.take(goodTopic)).map(arrived),
      readBack: async () => (await sqs.current.take(goodTopic)).map(readBack),
      received: async () => (await sqs.current.take(goodTopic)).map((message) => fromSqs(message)),
    }
  },
)
testContract(cases, {
  without: {
    V4: 'a queue of SQS is never full',
    A4: 'the stand-ins take every key',
    ...(fifo && {
      P4: 'a FIFO queue recognizes copies: it stores the second message of an id for the sender only',
      S5: 'the stand-ins keep in memory what a FIFO queue has received: shown with standard queues',
    }),
    ...(!fifo &&
      inject('tier') === 'quick' && { S5: 'a minute, because the stand-ins are slow: in the tier `all`' }),
  },
})
