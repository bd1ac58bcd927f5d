import { fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import path from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { DedupStoreUnavailableError, redisDedup } from '@txbox/redis'
import { Proxy } from '../support/worlds/proxy.ts'
import { clientsOfTier, sleep, tokenOf, useRedis } from './redis-under-test.ts'

const redis = useRedis()
const SCRIPT = /evalsha/i
const claim = () => ({ consumer: 'orders', key: randomUUID(), leaseMs: 30_000 })

async function proxy(): Promise<Proxy> {
  const between = await Proxy.to(redis.address)
  onTestFinished(() => between.close())
  return between
}

describe.for(clientsOfTier('node-redis'))('%s', (library) => {
  test('R2 a server that has forgotten the scripts is sent the text of the scripts', async () => {
    const dedup = redisDedup({ client: await redis.client(library) })
    const one = claim()
    await redis.ask('SCRIPT', 'FLUSH')
    const token = tokenOf(await dedup.begin(one))
    await redis.ask('SCRIPT', 'FLUSH')
    expect(await dedup.extend(token)).toBe('extended')
    await redis.ask('SCRIPT', 'FLUSH')
    expect(await dedup.complete(token)).toBe('completed')
    expect(await dedup.begin(one)).toMatchObject({ status: 'done' })
  })

  test.for(['cutBefore', 'cutAfter'] as const)(
    'R2 a call of begin is cut off (%s): the call wins, or its lease ends',
    async (cut) => {
      const between = await proxy()
      const dedup = redisDedup({ client: await redis.client(library, between.address) })
      await dedup.begin(claim())
      const one = { ...claim(), leaseMs: 1000 }
      between[cut](SCRIPT)
      const result = await dedup.begin(one).catch((error: unknown) => error)
      // ioredis sends again what was not answered, and the same owner wins again.
      if (library === 'ioredis') expect(result).toMatchObject({ status: 'won' })
      if (result instanceof Error) {
        expect(result).toBeInstanceOf(DedupStoreUnavailableError)
        expect(result).toMatchObject({ code: 'TXBOX_DEDUP_STORE_UNAVAILABLE', retryable: true })
        await sleep(1100)
        expect(await dedup.begin(one)).toMatchObject({ status: 'won' })
      } else expect(result).toMatchObject({ status: 'won' })
    },
  )

  test.for(['cutBefore', 'cutAfter'] as const)(
    'R4 a call of complete is cut off (%s): the repeated call completes the claim',
    async (cut) => {
      const between = await proxy()
      const dedup = redisDedup({ client: await redis.client(library, between.address) })
      const one = claim()
      const token = tokenOf(await dedup.begin(one))
      await dedup.complete(tokenOf(await dedup.begin(claim())))
      between[cut](SCRIPT)
      await dedup
        .complete(token)
        .catch((error: unknown) => expect(error).toBeInstanceOf(DedupStoreUnavailableError))
      expect(await dedup.complete(token)).toBe('completed')
      expect(await dedup.begin(one)).toMatchObject({ status: 'done' })
    },
  )

  test('R7 a Redis that does not answer is unavailable after 5 s, and works afterwards', async () => {
    const between = await proxy()
    const dedup = redisDedup({ client: await redis.client(library, between.address) })
    const outage = between.refuse()
    const secret = 'secret result'
    const startedAt = performance.now()
    const failure = await dedup
      .complete(`${randomUUID()}txbox:orders:x`, { result: secret })
      .catch((error: unknown) => error)
    expect(failure).toBeInstanceOf(DedupStoreUnavailableError)
    expect(performance.now() - startedAt).toBeLessThan(7000)
    outage.over()
    await expect.poll(async () => dedup.begin(claim()), { timeout: 10_000 }).toMatchObject({ status: 'won' })
  })

  test('R7 a call of begin that is answered too late gives up its claim', async () => {
    const between = await proxy()
    const dedup = redisDedup({ client: await redis.client(library, between.address) })
    await dedup.begin(claim())
    const one = claim()
    const { letGo } = between.hold(SCRIPT)
    await expect(dedup.begin(one)).rejects.toThrow('within 5000 ms')
    letGo()
    const direct = redisDedup({ client: await redis.client(library) })
    const first = await direct.begin(one)
    await expect
      .poll(async () => first.status === 'won' || (await direct.begin(one)).status === 'won')
      .toBe(true)
    await sleep(300)
    // What the late call gives up is its own claim, and not that of the next one.
    expect(await direct.begin(one)).toMatchObject({ status: 'in-flight' })
  })

  test('R7 if Redis refuses a command, the store is unavailable, with the reason and without the arguments', async () => {
    const dedup = redisDedup({ client: await redis.client(library) })
    const token = tokenOf(await dedup.begin(claim()))
    await redis.ask('CONFIG', 'SET', 'maxmemory', '1')
    const failure = await dedup.complete(token, { result: 'secret' }).catch((error: unknown) => error)
    await redis.ask('CONFIG', 'SET', 'maxmemory', '0')
    expect(failure).toBeInstanceOf(DedupStoreUnavailableError)
    expect(String(failure)).toContain('OOM')
    expect((failure as Error).cause).toBeUndefined()
    expect(await dedup.complete(token, { result: 'secret' })).toBe('completed')
  })

  test('R6 a value of another program is never taken for a mark', async () => {
    const dedup = redisDedup({ client: await redis.client(library) })
    const one = claim()
    await redis.ask('SET', `txbox:orders:${one.key}`, 'other')
    await expect(dedup.begin(one)).rejects.toThrow(DedupStoreUnavailableError)
    await redis.ask('DEL', `txbox:orders:${one.key}`)
    await redis.ask('RPUSH', `txbox:orders:${one.key}`, 'other')
    await expect(dedup.begin(one)).rejects.toThrow('WRONGTYPE')
  })

  test('R1 after FLUSHALL a claim is free again, and its former owner changes nothing', async () => {
    const dedup = redisDedup({ client: await redis.client(library) })
    const [done, open] = [claim(), claim()]
    await dedup.complete(tokenOf(await dedup.begin(done)))
    const old = tokenOf(await dedup.begin(open))
    await redis.ask('FLUSHALL')
    expect(await dedup.begin(done)).toMatchObject({ status: 'won' })
    const next = tokenOf(await dedup.begin(open))
    expect(await dedup.complete(old)).toBe('stale')
    expect(await dedup.release(old)).toBe('stale')
    expect(await dedup.complete(next)).toBe('completed')
    expect(await dedup.begin(open)).toMatchObject({ status: 'done' })
  })

  test('R1 the store warns of every maxmemory-policy but noeviction, where CONFIG is allowed', async () => {
    const between = await proxy()
    const dedup = redisDedup({ client: await redis.client(library, between.address) })
    expect(await dedup.warning()).toBeUndefined()
    await redis.ask('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
    onTestFinished(async () => void (await redis.ask('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')))
    expect(await dedup.warning()).toContain('maxmemory-policy allkeys-lru')
    await redis.ask('ACL', 'SETUSER', 'default', '-config')
    onTestFinished(async () => void (await redis.ask('ACL', 'SETUSER', 'default', '+config')))
    expect(await dedup.warning()).toBeUndefined()
  })
})

test('R4 R5 a paused owner loses its claim to the next owner, and changes nothing when it continues', async () => {
  const { key } = claim()
  const owner = fork(path.join(import.meta.dirname, 'programs', 'owner.mjs'), {
    env: { ...process.env, KEY: key, REDIS_PORT: String(redis.address.port) },
  })
  onTestFinished(() => void owner.kill('SIGKILL'))
  expect(await once(owner, 'message')).toContain('won')
  const dedup = redisDedup({ client: await redis.client('node-redis') })
  await sleep(1500)
  expect(await dedup.begin({ consumer: 'orders', key })).toMatchObject({ status: 'in-flight' })
  owner.kill('SIGSTOP')
  await sleep(1200)
  const next = tokenOf(await dedup.begin({ consumer: 'orders', key }))
  const answer = once(owner, 'message')
  owner.send('complete')
  owner.kill('SIGCONT')
  expect((await answer)[0]).toEqual(['stale', 'stale', 'stale'])
  expect(await dedup.begin({ consumer: 'orders', key })).toMatchObject({ status: 'in-flight' })
  expect(await dedup.complete(next)).toBe('completed')
})
