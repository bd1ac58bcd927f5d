import { onTestFinished } from 'vitest'
import { fromRedis, redisPublisher } from '@txbox/redis'
import { publisherContract, type ReadMessage } from '@txbox/testing'
import { networkUnderTest, testContract } from '../support/subjects/contract-tests.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { clientsOfTier, useRedis } from './redis-under-test.ts'
import {
  connected,
  idOf,
  publisherOf,
  publishingClient,
  StreamLog,
  textOf,
  urlAt,
  wrongKey,
  type StoredEntry,
} from './streams-under-test.ts'
import { uniqueName } from './unique-name.ts'

const redis = useRedis()
const LARGEST_BYTES = 1_000_000
const HERE = { url: 'redis://127.0.0.1:6379' }

const wrongOptions = {
  'no URL and no client': () => redisPublisher({}),
  'a URL and a client': () => redisPublisher({ ...HERE, client: { callBuffer: () => Promise.resolve() } }),
  'a URL of another protocol': () => redisPublisher({ url: 'http://127.0.0.1' }),
  'a URL without a host': () => redisPublisher({ url: 'redis:///0' }),
  'a URL with a parameter': () => redisPublisher({ url: 'redis://127.0.0.1/0?tls=true' }),
  'a URL with a password that is not encoded': () => redisPublisher({ url: 'redis://:a/b@127.0.0.1' }),
  'a database that is no number': () => redisPublisher({ url: 'redis://127.0.0.1/orders' }),
  'certificates without TLS': () => redisPublisher({ ...HERE, tls: {} }),
  'an unknown member of tls': () => redisPublisher({ url: 'rediss://127.0.0.1', tls: { pfx: '' } as never }),
  'a client that is none': () => redisPublisher({ client: {} as never }),
  'a client of ioredis that keeps commands': () =>
    redisPublisher({ client: { callBuffer: () => Promise.resolve(), options: {} } as never }),
  'a client of ioredis that sends commands again': () =>
    redisPublisher({
      client: { callBuffer: () => Promise.resolve(), options: { enableOfflineQueue: false } } as never,
    }),
  'a client of node-redis that keeps commands': () =>
    redisPublisher({ client: { sendCommand: () => Promise.resolve(), options: {} } as never }),
  'a stream that is text': () => redisPublisher({ ...HERE, stream: 'orders' as never }),
  'an empty stream': () => redisPublisher({ ...HERE, maxLength: 0 }),
  'fewer than no replicas': () => redisPublisher({ ...HERE, waitReplicas: -1 }),
  'replicas of a cluster': () =>
    redisPublisher({ client: { sendCommand: () => Promise.resolve(), masters: [] }, waitReplicas: 1 }),
  'too short a time': () => redisPublisher({ ...HERE, confirmTimeoutMs: 9 }),
  'too long a time': () => redisPublisher({ ...HERE, connectTimeoutMs: 3_600_001 }),
  'too large a limit': () => redisPublisher({ ...HERE, maxMessageBytes: 500_000_001 }),
  'an unknown option': () => redisPublisher({ ...HERE, maxlen: 1 } as never),
}

function readBack(entry: StoredEntry): ReadMessage {
  return {
    id: idOf(entry),
    type: textOf(entry, 'type'),
    key: textOf(entry, 'key'),
    correlationId: textOf(entry, 'correlation-id'),
    contentType: textOf(entry, 'content-type'),
    createdAt: new Date(textOf(entry, 'time') ?? ''),
    headers: JSON.parse(textOf(entry, 'headers') ?? '{}') as Record<string, string>,
  }
}

for (const how of ['url', ...clientsOfTier('ioredis')] as const) {
  const cases = publisherContract(
    {
      ordering: 'per-key',
      answerTimeoutMs: 1000,
      ...(how === 'url' && { wrongOptions }),
    },
    async () => {
      const network = await UnreliableNetwork.to(redis.address)
      onTestFinished(() => network.close())
      const goodTopic = uniqueName()
      const log = new StreamLog(redis, goodTopic)
      const limits = { confirmTimeoutMs: 1000, maxMessageBytes: LARGEST_BYTES }
      const client = how === 'url' ? undefined : await publishingClient(how, network.address)
      return {
        publisher:
          client === undefined
            ? publisherOf({ url: urlAt(network.address), connectTimeoutMs: 1000, ...limits })
            : publisherOf({ client, ...limits }),
        goodTopic,
        badTopic: await wrongKey(redis),
        network: networkUnderTest(network, async () => {
          if (client !== undefined) await connected(client)
        }),
        tooLarge: LARGEST_BYTES + 1,
        poison: {
          'no topic': { topic: '' },
          'a topic with a lone surrogate': { topic: '\uD800' },
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
        ...(client === undefined && {
          refused: {
            publisher: publisherOf({ url: urlAt(redis.address, 'nobody:hidden-word@') }),
            secret: 'hidden-word',
          },
          unresolved: publisherOf({ url: 'redis://nowhere.invalid', connectTimeoutMs: 1000 }),
        }),
        arrived: async () =>
          (await log.take()).map((entry) => ({ id: idOf(entry), payload: entry.fields.get('payload')! })),
        readBack: async () => (await log.take()).map(readBack),
        received: async () =>
          (await log.take()).map((entry) => fromRedis([entry.entryId, entry.fields] as never)),
      }
    },
  )

  testContract(cases, {
    suffix: ` (${how})`,
    without: {
      V4: 'a stream of Redis is never full: a full server is an outage',
      ...(how !== 'url' && {
        A4: 'a client that is passed has logged in',
        A5: 'a client that is passed has connected',
      }),
    },
  })
}
