import { onTestFinished } from 'vitest'
import { fromPgBoss, pgBossPublisher } from '@txbox/pg-boss'
import { publisherContract } from '@txbox/testing'
import { networkUnderTest, testContract } from '../support/subjects/contract-tests.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { payloadOf, usePgBoss } from './pg-boss-under-test.ts'

const subject = usePgBoss()
const TIMEOUT_MS = 2000
const LARGEST_BYTES = 1_100_000
const BOSS = { insert: async () => null, getJobById: async () => null }

const wrongOptions = {
  'no boss': () => pgBossPublisher({} as never),
  'a boss that is a URL': () => pgBossPublisher({ boss: 'postgres://127.0.0.1' as never }),
  'an unknown option': () => pgBossPublisher({ boss: BOSS, url: '' } as never),
  'a queue that is text': () => pgBossPublisher({ boss: BOSS, queue: 'orders' as never }),
  'a job that is an object': () => pgBossPublisher({ boss: BOSS, job: {} as never }),
  'unknown data': () => pgBossPublisher({ boss: BOSS, data: 'body' as never }),
  'too short a time': () => pgBossPublisher({ boss: BOSS, confirmTimeoutMs: 9 }),
  'too large a limit': () => pgBossPublisher({ boss: BOSS, maxMessageBytes: 100_000_001 }),
}

const cases = publisherContract(
  {
    ordering: 'per-key',
    answerTimeoutMs: TIMEOUT_MS,
    deduplicates: true,
    wrongOptions,
  },
  async () => {
    const network = await UnreliableNetwork.to(subject.address)
    onTestFinished(() => network.close())
    const boss = await subject.open(network.address)
    const goodTopic = await subject.queue()
    const full = await subject.queue({ policy: 'short' })
    const waiting = await subject.boss.send(full, {})
    return {
      publisher: pgBossPublisher({ boss, confirmTimeoutMs: TIMEOUT_MS, maxMessageBytes: LARGEST_BYTES }),
      goodTopic,
      badTopic: 'missing',
      network: networkUnderTest(network),
      tooLarge: LARGEST_BYTES + 1,
      poison: {
        'a NUL in a header': { headers: { a: '\0' } },
        'a lone surrogate in a key': { key: '\uD800' },
        'a NUL in JSON': { payload: Buffer.from(String.raw`{"a":"\u0000"}`) },
        'a lone surrogate in JSON': { payload: Buffer.from(String.raw`{"a":"\ud800"}`) },
        'a number that is too large': { payload: Buffer.from('{"a":1e999999}') },
        'a queue with a blank': { topic: 'a b' },
        'a queue without a name': { topic: '' },
        'a queue with a quote': { topic: "a'b" },
      },
      full: { topic: full, free: async () => void (await subject.boss.deleteJob(full, waiting!)) },
      arrived: async () =>
        (await subject.take(goodTopic)).map(({ data }) => ({
          id: String(data['id']),
          payload: payloadOf(data),
        })),
      readBack: async () =>
        (await subject.take(goodTopic)).map((job) => {
          const { id, type, correlationId, time, headers } = fromPgBoss(job)
          const { key, contentType } = job.data as Record<string, string>
          return {
            id,
            type,
            key,
            correlationId,
            contentType,
            createdAt: time as Date,
            headers: headers ?? {},
          }
        }),
      received: async () => (await subject.take(goodTopic)).map((job) => fromPgBoss(job)),
    }
  },
)

testContract(cases, {
  without: {
    A4: 'the publisher takes a pg-boss that has logged in',
    A5: 'the publisher takes a pg-boss that has connected',
  },
})
