import { Redis } from 'ioredis'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { InboxMessage } from '@txbox/consumer'
import { redisDedup } from '@txbox/redis'
import { ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'
import { until } from '../support/worlds/until.ts'
import { clientsOfTier, RedisUnderTest, sleep, useRedis } from './redis-under-test.ts'

const redis = useRedis(['--notify-keyspace-events', 'Ee'])
/** Long, so that few of them fill the memory. */
const IDS = Array.from({ length: 400 }, (_, n) => `m${n}-`.padEnd(450, 'x'))
const soon = { attempts: 1000, delayMs: () => 5 }

/** How often each key was evicted from now on, as Redis reports it. */
async function evictions(): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>()
  const listener = new Redis(redis.address)
  onTestFinished(() => listener.disconnect())
  await listener.subscribe('__keyevent@0__:evicted')
  listener.on('message', (_, key: string) => void counts.set(key, (counts.get(key) ?? 0) + 1))
  return counts
}

/** Room for so many bytes more, of which Redis takes some for itself. */
async function limit(bytes: number, policy: string): Promise<void> {
  const used = Number(/used_memory:(\d+)/.exec(String(await redis.ask('INFO', 'memory')))?.[1])
  await redis.ask('CONFIG', 'SET', 'maxmemory', String(used + bytes), 'maxmemory-policy', policy)
  onTestFinished(async () => {
    await redis.ask('CONFIG', 'SET', 'maxmemory', '0', 'maxmemory-policy', 'noeviction')
    await redis.ask('FLUSHALL')
  })
}

describe.for(clientsOfTier('node-redis'))('%s', (library) => {
  test.for(['allkeys-random', 'volatile-ttl'])(
    'R1 with %s, a message is handled again only as often as its mark was evicted',
    async (policy) => {
      const name = `evicted-${library}-${policy}`
      const runs = new Map<string, number>()
      const handle = async ({ id }: InboxMessage): Promise<void> => {
        runs.set(id, (runs.get(id) ?? 0) + 1)
        await sleep(1)
      }
      const sources = [new MemorySource(), new MemorySource()]
      for (const source of sources) {
        const dedup = redisDedup({ client: await redis.client(library) })
        const options = { name, dedup, retry: soon, order: 'none', concurrency: 8 } as const
        await ConsumerUnderTest.started(source, handle, options)
      }
      const evicted = await evictions()
      /** Each message for both consumers at once. */
      const round = async (sent: number, prefix = ''): Promise<void> => {
        for (const source of sources) for (const id of IDS) source.send(`${prefix}${id}`)
        for (const source of sources) await source.accepted(IDS.length * sent)
      }
      // With its first marks, Redis 8 takes as much memory for itself as the limit has room.
      await round(1, 'first-')
      await redis.ask('FLUSHALL')
      await limit(150_000, policy)
      await round(2)
      await round(3)
      await sleep(100)
      const times = (id: string): number => evicted.get(`txbox:${name}:${id}`) ?? 0
      const doubled = IDS.filter((id) => runs.get(id)! > 1)
      expect(doubled.length, 'the memory is short').toBeGreaterThan(0)
      expect(IDS.filter((id) => (runs.get(id) ?? 0) < 1)).toEqual([])
      expect(IDS.filter((id) => runs.get(id)! > 1 + times(id))).toEqual([])
    },
  )

  test('R1 R7 with noeviction a full Redis loses no mark: consumers wait, and nothing is handled twice', async () => {
    const name = `full-${library}`
    const source = new MemorySource()
    const dedup = redisDedup({ client: await redis.client(library) })
    await limit(100_000, 'noeviction')
    const subject = await ConsumerUnderTest.started(source, () => undefined, { name, dedup, retry: soon })
    for (const id of IDS) source.send(id)
    await until(
      async () => subject.heard('unavailable').length > 0,
      () => `Redis is full: ${subject.runs.length} were handled`,
      20_000,
    )
    expect(String(subject.heard('unavailable')[0]?.error)).toContain('OOM')
    expect(subject.runs.length).toBeLessThan(IDS.length)
    await redis.ask('CONFIG', 'SET', 'maxmemory', '0')
    await source.accepted(IDS.length)
    // A mark that Redis refused to complete is reported; only its message may be handled again, when its lease has run out.
    const incomplete = new Set(subject.heard('error').map((event) => event.message?.id))
    const marked = IDS.filter((id) => !incomplete.has(id))
    for (const id of marked) source.send(id)
    await source.accepted(IDS.length + marked.length)
    expect(subject.ids.toSorted()).toEqual(IDS.toSorted())
  })
})

test.for([
  { file: 'no append-only file', options: [], runs: 2 },
  { file: 'an append-only file', options: ['--appendonly', 'yes', '--appendfsync', 'always'], runs: 1 },
])('R1 a server that is killed and has $file: $runs run(s) of each message', async ({ options, runs }) => {
  const mortal = new RedisUnderTest(options)
  await mortal.start()
  onTestFinished(() => mortal.stop())
  const ids = Array.from({ length: 50 }, (_, n) => `m${n}`)
  const source = new MemorySource()
  const dedup = redisDedup({ client: await mortal.client('ioredis') })
  const subject = await ConsumerUnderTest.started(source, () => undefined, {
    name: 'orders',
    dedup,
    retry: soon,
  })
  for (const id of ids) source.send(id)
  await source.accepted(ids.length)
  await mortal.restart()
  for (let round = 2; round <= 3; round++) {
    for (const id of ids) source.send(id)
    await source.accepted(ids.length * round)
  }
  expect(ids.map((id) => subject.of(id).length)).toEqual(ids.map(() => runs))
})
