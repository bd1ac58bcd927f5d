import { afterAll, inject } from 'vitest'
import { fromKafka, kafkaPublisher } from '@txbox/kafka'
import { publisherContract, type ReadMessage } from '@txbox/testing'
import { networkUnderTest, testContract } from '../support/subjects/contract-tests.ts'
import { KafkaUnderTest, headerOf, idOf } from './kafka-under-test.ts'
import type { StoredRecord } from './topic-log.ts'

const kafka = new KafkaUnderTest(inject('servers')['kafka']!)
afterAll(() => kafka.close())
const LARGEST_BYTES = 1_000_000
const FIELDS = new Set(['txbox-id', 'txbox-type', 'txbox-correlation-id', 'txbox-time', 'content-type'])

const ONE = { brokers: ['127.0.0.1:9092'] }
const wrongOptions = {
  'no broker': () => kafkaPublisher({ brokers: [] }),
  'brokers that are text': () => kafkaPublisher({ brokers: '127.0.0.1:9092' as never }),
  'a broker without a port': () => kafkaPublisher({ brokers: ['127.0.0.1'] }),
  'a broker with a password': () => kafkaPublisher({ brokers: ['user:secret@127.0.0.1:9092'] }),
  'a port that there is not': () => kafkaPublisher({ brokers: ['127.0.0.1:65536'] }),
  'too many brokers': () => kafkaPublisher({ brokers: Array.from({ length: 101 }, () => 'kafka:9092') }),
  'a client id with a blank': () => kafkaPublisher({ ...ONE, clientId: 'a b' }),
  'TLS with an unknown member': () => kafkaPublisher({ ...ONE, tls: { certificate: '' } as never }),
  'no mechanism': () => kafkaPublisher({ ...ONE, sasl: { username: 'a', password: 'b' } as never }),
  'an unknown mechanism': () =>
    kafkaPublisher({ ...ONE, sasl: { mechanism: 'GSSAPI', username: 'a', password: 'b' } as never }),
  'no password': () => kafkaPublisher({ ...ONE, sasl: { mechanism: 'PLAIN', username: 'a' } as never }),
  'a token that is text': () =>
    kafkaPublisher({ ...ONE, sasl: { mechanism: 'OAUTHBEARER', token: 'a' as never } }),
  'a topic that is text': () => kafkaPublisher({ ...ONE, topic: 'orders' as never }),
  'an unknown compression': () => kafkaPublisher({ ...ONE, compression: 'brotli' as never }),
  'too short a time': () => kafkaPublisher({ ...ONE, confirmTimeoutMs: 9 }),
  'too long a time': () => kafkaPublisher({ ...ONE, connectTimeoutMs: 3_600_001 }),
  'too large a limit': () => kafkaPublisher({ ...ONE, maxMessageBytes: 100_000_001 }),
  'an unknown option': () => kafkaPublisher({ ...ONE, acks: 1 } as never),
}

function readBack(record: StoredRecord): ReadMessage {
  return {
    id: idOf(record),
    type: headerOf(record, 'txbox-type'),
    key: record.key === null ? undefined : String(record.key),
    correlationId: headerOf(record, 'txbox-correlation-id'),
    contentType: headerOf(record, 'content-type'),
    createdAt: new Date(headerOf(record, 'txbox-time') ?? ''),
    headers: Object.fromEntries(record.headers.filter(([name]) => !FIELDS.has(name))),
  }
}

const cases = publisherContract(
  {
    ordering: 'per-key',
    answerTimeoutMs: 2000,
    wrongOptions,
  },
  async () => {
    const network = await kafka.network()
    const goodTopic = await kafka.topic()
    const log = await kafka.log(goodTopic)
    return {
      publisher: kafka.publisher({
        brokers: [`${network.address.host}:${network.address.port}`],
        confirmTimeoutMs: 2000,
        connectTimeoutMs: 1000,
      }),
      goodTopic,
      badTopic: kafka.name('missing'),
      network: networkUnderTest(network),
      tooLarge: LARGEST_BYTES + 1,
      poison: {
        'a topic with a blank': { topic: 'a b' },
        'a topic that is a folder': { topic: '..' },
        'a topic that is too long': { topic: 'x'.repeat(250) },
        'a key with a lone surrogate': { key: '\uD800' },
        'an id with a lone surrogate': { id: '\uD800' },
        'a type with a lone surrogate': { type: '\uD800' },
        'a correlation id with a lone surrogate': { correlationId: '\uD800' },
        'a content type with a lone surrogate': { contentType: '\uD800' },
        'a header with a lone surrogate': { headers: { a: '\uD800' } },
        'a name of a header with a lone surrogate': { headers: { '\uD800': 'a' } },
        'a header that is no text': { headers: { a: 1 as never } },
        'no time of creation': { createdAt: new Date(NaN) },
      },
      unresolved: kafkaPublisher({ brokers: ['nowhere.invalid:9092'], connectTimeoutMs: 1000 }),
      arrived: async () => (await log.take()).map((record) => ({ id: idOf(record), payload: record.value })),
      readBack: async () => (await log.take()).map(readBack),
      received: async () =>
        (await log.take()).map(({ value, timestamp, headers }) =>
          fromKafka({ value, timestamp, headers: new Map(headers) }),
        ),
    }
  },
)

testContract(cases, {
  without: {
    V4: 'a topic of Kafka is never full',
    A4: 'the broker of this project asks for no password: broker/logins.ts',
  },
})
