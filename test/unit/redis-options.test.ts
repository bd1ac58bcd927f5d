import { expect, test } from 'vitest'
import { InvalidOptionError, createConsumer } from '@txbox/consumer'
import { redisDedup, type RedisClient } from '@txbox/redis'
import { MemorySource } from '../support/subjects/memory-source.ts'

const nothing = async (): Promise<unknown> => ['won']
const ioredis: RedisClient = { evalsha: nothing, eval: nothing, call: nothing }
const nodeRedis: RedisClient = { evalSha: nothing, eval: nothing }

test('a client is recognized by its methods, and everything else is refused', () => {
  for (const client of [ioredis, nodeRedis]) expect(redisDedup({ client }).onUnavailable).toBe('fail')
  for (const client of [
    undefined,
    null,
    {},
    'redis://localhost',
    nothing,
    { eval: nothing },
    { evalsha: nothing },
  ]) {
    expect(() => redisDedup({ client: client as never })).toThrow(
      "redisDedup: the option 'client' must be a client of ioredis or node-redis",
    )
  }
})

const WRONG: readonly [string, readonly unknown[], string][] = [
  ['prefix', ['', 'x'.repeat(101), 7, 'a\0', '\ud800'], 'text'],
  ['retentionMs', [999, 0, Number.NaN, 3_155_760_000_001, Infinity, '1'], 'from 1000 to 3155760000000'],
  ['leaseMs', [999, 3_600_001, Number.NaN, '1'], 'from 1000 to 3600000'],
  ['onUnavailable', ['ignore', true], "'fail' or 'process'"],
]

test.for(WRONG)(
  'the option %s is refused out of its bounds, which the error names',
  ([name, values, bound]) => {
    for (const value of values) {
      const make = (): unknown => redisDedup({ client: ioredis, [name]: value })
      expect(make).toThrow(InvalidOptionError)
      expect(make).toThrow(`the option '${name}' must be`)
      expect(make).toThrow(bound)
    }
  },
)

test('an unknown option, and options that are no object, are refused', () => {
  expect(() => redisDedup({ client: ioredis, ttl: 5 } as never)).toThrow("there is no option 'ttl'")
  expect(() => redisDedup(ioredis as never)).toThrow(InvalidOptionError)
  expect(() => redisDedup(undefined as never)).toThrow(InvalidOptionError)
})

test('the bounds themselves are accepted', () => {
  for (const [retentionMs, leaseMs] of [
    [1000, 1000],
    [3_155_760_000_000, 3_600_000],
  ] as const) {
    for (const prefix of ['x', 'x'.repeat(100)]) redisDedup({ client: ioredis, prefix, retentionMs, leaseMs })
  }
})

test('calls out of their bounds are refused, and nothing is sent', async () => {
  const sent: unknown[] = []
  const client = { evalSha: async (...args: unknown[]) => sent.push(args), eval: nothing }
  const dedup = redisDedup({ client })
  const token = `${'0'.repeat(36)}txbox:a:b`
  const refused = [
    dedup.begin({ consumer: '', key: 'a' }),
    dedup.begin({ consumer: 'x'.repeat(101), key: 'a' }),
    dedup.begin({ consumer: 'a', key: 'a', leaseMs: 999 }),
    dedup.begin({ consumer: 'a', key: 'a', leaseMs: 3_600_001 }),
    dedup.extend(token, 999),
    dedup.complete(token, { retentionMs: 999 }),
    dedup.complete('short'),
    dedup.release(undefined as never),
    dedup.complete(token, { result: '' }),
    dedup.complete(token, { result: 'x'.repeat(1_048_577) }),
  ]
  for (const result of await Promise.allSettled(refused)) expect(result.status).toBe('rejected')
  expect(sent).toEqual([])
})

test("R7 a store with onUnavailable 'process' is refused without an inbox", () => {
  const dedup = redisDedup({ client: ioredis, onUnavailable: 'process' })
  const options = { source: new MemorySource(), name: 'orders', logger: false } as const
  const inbox = { consumer: 'orders', run: nothing, runBatch: nothing } as never
  const handler = (): void => undefined
  expect(() => createConsumer({ ...options, dedup, handler })).toThrow(
    "the option 'dedup' must be without a store",
  )
  expect(() =>
    createConsumer({ ...options, dedup: [redisDedup({ client: ioredis }), dedup], handler }),
  ).toThrow(InvalidOptionError)
  createConsumer({ ...options, dedup, handler, inbox })
})
