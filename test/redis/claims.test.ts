import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { redisDedup, type RedisDedup } from '@txbox/redis'
import { dedupRules, tokenOf } from '../support/subjects/dedup-rules.ts'
import { clientsOfTier, useRedis } from './redis-under-test.ts'

const redis = useRedis()

describe.for(clientsOfTier('ioredis'))('%s', (library) => {
  const store = async (prefix?: string): Promise<RedisDedup> =>
    redisDedup({ client: await redis.client(library), prefix })

  dedupRules({
    store: () => store(),
    async claims() {
      const keys = await redis.keys()
      // -1 is a key that does not expire; -2 is one that is gone by now.
      return Promise.all(keys.map(async (key) => ({ key, expires: (await redis.ask('PTTL', key)) !== -1 })))
    },
    leftMs: async (token) => Number(await redis.ask('PTTL', token.slice(36))),
    async now() {
      const [seconds] = (await redis.ask('TIME')) as [string]
      return new Date(Number(seconds) * 1000)
    },
  })

  test('R6 the token names the key in Redis, also of a long key', async () => {
    const dedup = await store()
    const consumer = `named ${randomUUID()}`
    const tokens = await Promise.all(
      ['a\0', 'ä', 'x'.repeat(512), 'x'.repeat(513)].map(async (key) =>
        tokenOf(await dedup.begin({ consumer, key })),
      ),
    )
    const stored = await redis.keys()
    for (const token of tokens) expect(stored).toContain(token.slice(36))
    expect(tokens.at(-1)!.split(':').slice(-2).join(':')).toMatch(/^sha256:[0-9a-f]{64}$/)
  })

  test('R6 consumers and prefixes have keys of their own', async () => {
    const [one, other] = [await store(`${library}-1:`), await store(`${library}-2:`)]
    const claims = [
      { consumer: 'a', key: 'b:c' },
      { consumer: 'a:b', key: 'c' },
      { consumer: 'a%3Ab', key: 'c' },
      { consumer: 'A', key: 'b:c' },
    ]
    for (const dedup of [one, other]) {
      for (const each of claims) expect(await dedup.begin(each)).toMatchObject({ status: 'won' })
    }
    for (const each of claims) expect(await one.begin(each)).toMatchObject({ status: 'in-flight' })
  })
})
