import { randomUUID } from 'node:crypto'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { InvalidMessageError, redisDedup, type RedisDedup } from '@txbox/redis'
import { clientsOfTier, sleep, tokenOf, useRedis } from './redis-under-test.ts'

const redis = useRedis()
const claim = (key: string = randomUUID()) => ({ consumer: 'orders', key, leaseMs: 30_000 })

describe.for(clientsOfTier('ioredis'))('%s', (library) => {
  const store = async (prefix?: string): Promise<RedisDedup> =>
    redisDedup({ client: await redis.client(library), prefix })

  test('R2 of concurrent calls of begin exactly one wins, on one connection and on several connections', async () => {
    const stores = await Promise.all(Array.from({ length: 5 }, () => store()))
    for (let round = 0; round < 20; round++) {
      const one = claim()
      const results = await Promise.all(
        Array.from({ length: 50 }, (_, n) => stores[n % stores.length]!.begin(one)),
      )
      expect(results.filter(({ status }) => status === 'won').length).toBe(1)
      expect(results.filter(({ status }) => status === 'in-flight').length).toBe(49)
    }
  })

  test('R3 a claim in flight does not count as done, and a first handler that fails leaves no claim', async () => {
    const dedup = await store()
    const one = claim()
    const token = tokenOf(await dedup.begin(one))
    expect(await dedup.begin(one)).toEqual({ status: 'in-flight', retryAfterMs: 1000 })
    await dedup.extend(token, 1000)
    await sleep(500)
    const late = await dedup.begin(one)
    if (late.status !== 'in-flight') throw new Error(late.status)
    expect(late.retryAfterMs).toBeGreaterThan(0)
    expect(late.retryAfterMs).toBeLessThanOrEqual(500)
    const before = (await redis.keys()).length
    expect(await dedup.release(token)).toBe('released')
    expect((await redis.keys()).length).toBe(before - 1)
    expect(await dedup.begin(one)).toMatchObject({ status: 'won' })
  })

  test('R3 a claim that was completed is done, with its time and result', async () => {
    const dedup = await store()
    for (const result of [undefined, 'a:b:\n\0"ä"', '{"n":1}']) {
      const one = claim()
      const startedAt = Date.now()
      expect(await dedup.complete(tokenOf(await dedup.begin(one)), { result })).toBe('completed')
      const done = await dedup.begin(one)
      if (done.status !== 'done') throw new Error(done.status)
      expect(done.result).toBe(result)
      expect(Math.abs(done.firstProcessedAt.getTime() - startedAt)).toBeLessThan(5000)
    }
  })

  test('R4 R5 an owner whose lease has expired does not change the claim of the next owner', async () => {
    const dedup = await store()
    const one = { ...claim(), leaseMs: 1000 }
    const old = tokenOf(await dedup.begin(one))
    await sleep(1100)
    const next = tokenOf(await dedup.begin(claim(one.key)))
    expect(await dedup.release(old)).toBe('stale')
    expect(await dedup.extend(old, 1000)).toBe('stale')
    expect(await dedup.complete(old)).toBe('stale')
    expect(await dedup.begin(one)).toMatchObject({ status: 'in-flight' })
    expect(await redis.ask('PTTL', next.slice(36))).toBeGreaterThan(20_000)
    expect(await dedup.complete(next)).toBe('completed')
    for (const token of [old, next]) {
      expect(await dedup.release(token)).toBe('stale')
      expect(await dedup.extend(token)).toBe('stale')
    }
    expect(await dedup.begin(one)).toMatchObject({ status: 'done' })
  })

  test('R5 extend keeps the lease, and the mark lives for retentionMs from complete', async () => {
    const dedup = await store()
    const one = { ...claim(), leaseMs: 1000 }
    const token = tokenOf(await dedup.begin(one))
    for (let n = 0; n < 3; n++) {
      await sleep(500)
      expect(await dedup.extend(token, 1000)).toBe('extended')
    }
    expect(await dedup.begin(one)).toMatchObject({ status: 'in-flight' })
    expect(await dedup.complete(token, { retentionMs: 1000 })).toBe('completed')
    await sleep(700)
    expect(await dedup.begin(one)).toMatchObject({ status: 'done' })
    await sleep(500)
    expect(await dedup.begin(one)).toMatchObject({ status: 'won' })
  })

  test('R5 Redis accepts the shortest and the longest times that the options allow', async () => {
    const dedup = await store()
    const one = { ...claim(), leaseMs: 3_600_000 }
    const token = tokenOf(await dedup.begin(one))
    expect(await dedup.extend(token, 1000.5)).toBe('extended')
    expect(await dedup.complete(token, { retentionMs: 3_155_760_000_000 })).toBe('completed')
    expect(await redis.ask('PTTL', token.slice(36))).toBeGreaterThan(3_155_000_000_000)
  })

  test('R6 keys of any bytes are distinct, and a long key has a short name in Redis', async () => {
    const dedup = await store()
    const keys = [
      ...[
        'a',
        'A',
        'a ',
        ' a',
        'a\0',
        '\0',
        'ä',
        'a\u0308',
        '\r\n',
        '*',
        '{a}b',
        'sha256:a',
        '["a","b"]',
        ':',
      ],
      ...[
        '💥',
        '%3A',
        'x'.repeat(512),
        'x'.repeat(513),
        'x'.repeat(514),
        `${'ä'.repeat(300)}1`,
        `${'ä'.repeat(300)}2`,
      ],
    ]
    keys.push(...(await redis.keys()).slice(0, 3))
    const begun = await Promise.all(keys.map(async (key) => dedup.begin({ consumer: `any ${library}`, key })))
    expect(begun.map(({ status }) => status)).toEqual(keys.map(() => 'won'))
    for (const one of begun) expect(tokenOf(one).length).toBeLessThan(36 + 700)
    const stored = new Set(await redis.keys())
    for (const one of begun) expect(stored).toContain(tokenOf(one).slice(36))
    // A key that looks like the hash of another.
    const hashed = tokenOf(begun[keys.indexOf('x'.repeat(513))]!)
      .split(':')
      .slice(-2)
      .join(':')
    expect(hashed).toMatch(/^sha256:[0-9a-f]{64}$/)
    expect(await dedup.begin({ consumer: `any ${library}`, key: hashed })).toMatchObject({ status: 'won' })
    for (const key of ['', '\ud800', 7 as never, ['a'] as never]) {
      await expect(dedup.begin({ consumer: 'any', key })).rejects.toThrow(InvalidMessageError)
    }
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

  test('R9 the clock of Redis decides, and every key expires', async () => {
    const dedup = await store()
    vi.useFakeTimers({ toFake: ['Date'], now: new Date('2001-01-01') })
    onTestFinished(() => void vi.useRealTimers())
    const [done, open] = [claim(), claim()]
    await dedup.complete(tokenOf(await dedup.begin(done)))
    await dedup.begin(open)
    const [seconds] = (await redis.ask('TIME')) as [string]
    const result = await dedup.begin(done)
    if (result.status !== 'done') throw new Error(result.status)
    expect(Math.abs(result.firstProcessedAt.getTime() / 1000 - Number(seconds))).toBeLessThan(5)
    const keys = await redis.keys()
    expect(keys.length).toBeGreaterThan(1)
    // -1 is a key that does not expire; -2 is one that is gone by now.
    for (const key of keys) expect(await redis.ask('PTTL', key), key).not.toBe(-1)
  })
})
