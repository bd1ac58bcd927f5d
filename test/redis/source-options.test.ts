import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { expect, test } from 'vitest'
import { InvalidOptionError } from '@txbox/consumer'
import { redisSource, type RedisSourceOptions } from '@txbox/redis'

test('a wrong option is an InvalidOptionError at once', async () => {
  const right = { url: 'redis://127.0.0.1', stream: 'orders', group: 'billing' }
  const wrong: Record<string, object> = {
    'no stream': { stream: undefined },
    'no group': { group: '' },
    'an unknown option': { block: 1 },
    'a lease that is too short': { leaseMs: 999 },
    'a beginning that is none': { declare: { from: 'first' } },
    'dead letters in the stream itself': { deadLetterStream: 'orders' },
    'a client without duplicate': { url: undefined, client: { callBuffer: () => undefined } },
    'a cluster client': {
      url: undefined,
      client: { callBuffer: () => undefined, duplicate: () => undefined, nodes: () => [] },
    },
    'too long a time': { confirmTimeoutMs: 3_600_001 },
  }
  for (const [name, options] of Object.entries(wrong)) {
    expect(() => redisSource(Object.assign({}, right, options) as RedisSourceOptions), name).toThrow(
      InvalidOptionError,
    )
  }
})

test('a client of each library is taken as it is', () => {
  const name = { stream: 'orders', group: 'billing' }
  expect(redisSource({ client: createClient(), ...name }).name).toBe('redis orders billing')
  expect(redisSource({ client: new Redis({ lazyConnect: true }), ...name }).traits.leaseMs).toBe(60_000)
})
