import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { InboxMessage, SqlDedup } from '@txbox/consumer'
import { InvalidMessageError } from '@txbox/core'
import type { RedisDedup } from '@txbox/redis'
import { ConsumerUnderTest } from './consumer-under-test.ts'
import { MemorySource } from './memory-source.ts'

/** A store whose methods have defaults for the times. */
export type StoreUnderTest = RedisDedup | SqlDedup

/** A kind of dedup store, on a server on which other tests may have made claims. */
export interface DedupWorld {
  /** A store with connections of its own. */
  store(): Promise<StoreUnderTest>
  /** The claims on the server as they are stored, expired ones included where the server keeps them. */
  claims(): Promise<readonly { readonly key: string; readonly expires: boolean }[]>
  /** How long the claim of a token lives, in milliseconds. */
  leftMs(token: string): Promise<number>
  /** The clock of the server. */
  now(): Promise<Date>
}

const claim = (key: string = randomUUID()) => ({ consumer: 'orders', key, leaseMs: 30_000 })

/** The rules that every dedup store keeps. */
export function dedupRules(world: DedupWorld): void {
  const store = (): Promise<StoreUnderTest> => world.store()

  test('R2 of concurrent calls of begin exactly one wins, on one connection and on several connections', async () => {
    const stores = await Promise.all(Array.from({ length: 5 }, store))
    for (let round = 0; round < 20; round++) {
      const one = claim()
      const results = await Promise.all(
        Array.from({ length: 50 }, (_, n) => stores[n % stores.length]!.begin(one)),
      )
      expect(results.filter(({ status }) => status === 'won').length).toBe(1)
      expect(results.filter(({ status }) => status === 'in-flight').length).toBe(49)
    }
  })

  test('R2 R5 of concurrent calls of begin for an expired claim exactly one wins', async () => {
    const stores = await Promise.all(Array.from({ length: 3 }, store))
    const one = { ...claim(), leaseMs: 1000 }
    await stores[0]!.begin(one)
    await sleep(1100)
    const results = await Promise.all(
      Array.from({ length: 30 }, (_, n) => stores[n % stores.length]!.begin(one)),
    )
    expect(results.filter(({ status }) => status === 'won').length).toBe(1)
    expect(results.filter(({ status }) => status === 'in-flight').length).toBe(29)
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
    const before = (await world.claims()).length
    expect(await dedup.release(token)).toBe('released')
    expect((await world.claims()).length).toBe(before - 1)
    expect(await dedup.begin(one)).toMatchObject({ status: 'won' })
  })

  test('R3 a claim that was completed is done, with its time and result', async () => {
    const dedup = await store()
    for (const result of [undefined, 'a:b:\n\0"ä"', '{"n":1}']) {
      const one = claim()
      const startedAt = (await world.now()).getTime()
      expect(await dedup.complete(tokenOf(await dedup.begin(one)), { result })).toBe('completed')
      const done = await dedup.begin(one)
      if (done.status !== 'done') throw new Error(done.status)
      expect(done.result).toBe(result)
      expect(Math.abs(done.firstProcessedAt.getTime() - startedAt)).toBeLessThan(5000)
    }
  })

  test('R4 a repeated complete is completed, and changes neither the result nor the retention', async () => {
    const dedup = await store()
    const one = claim()
    const token = tokenOf(await dedup.begin(one))
    expect(await dedup.complete(token, { result: 'first', retentionMs: 60_000 })).toBe('completed')
    expect(await dedup.complete(token, { result: 'second', retentionMs: 600_000 })).toBe('completed')
    expect(await dedup.begin(one)).toMatchObject({ status: 'done', result: 'first' })
    expect(await world.leftMs(token)).toBeLessThanOrEqual(60_000)
  })

  test('R4 R5 an owner whose lease has expired does not change the claim of the next owner', async () => {
    const dedup = await store()
    const one = { ...claim(), leaseMs: 1000 }
    const old = tokenOf(await dedup.begin(one))
    await sleep(1100)
    // The lease is over also if nobody has taken it.
    expect(await dedup.complete(old)).toBe('stale')
    expect(await dedup.extend(old, 1000)).toBe('stale')
    const next = tokenOf(await dedup.begin(claim(one.key)))
    expect(await dedup.release(old)).toBe('stale')
    expect(await dedup.extend(old, 1000)).toBe('stale')
    expect(await dedup.complete(old)).toBe('stale')
    expect(await dedup.begin(one)).toMatchObject({ status: 'in-flight' })
    expect(await world.leftMs(next)).toBeGreaterThan(20_000)
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

  test('R5 the server accepts the shortest and the longest times that the options allow', async () => {
    const dedup = await store()
    const token = tokenOf(await dedup.begin({ ...claim(), leaseMs: 3_600_000 }))
    expect(await dedup.extend(token, 1000.5)).toBe('extended')
    expect(await dedup.complete(token, { retentionMs: 3_155_760_000_000 })).toBe('completed')
    expect(await world.leftMs(token)).toBeGreaterThan(3_155_000_000_000)
  })

  test('R6 keys of any bytes are distinct, and a long key is stored in a short form', async () => {
    const dedup = await store()
    const consumer = `any ${randomUUID()}`
    const plain = [
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
    ]
    const long = [
      '💥',
      '%3A',
      'x'.repeat(512),
      'x'.repeat(513),
      'x'.repeat(514),
      `${'ä'.repeat(300)}1`,
      `${'ä'.repeat(300)}2`,
    ]
    const stored = await world.claims()
    const keys = [...new Set([...plain, ...long, ...stored.slice(0, 3).map(({ key }) => key)])]
    const begun = await Promise.all(keys.map(async (key) => dedup.begin({ consumer, key })))
    expect(begun.map(({ status }) => status)).toEqual(keys.map(() => 'won'))
    for (const one of begun) expect(tokenOf(one).length).toBeLessThan(36 + 1300)
    // A key that looks like the hash of another.
    const [hashed] = /sha256:[0-9a-f]{64}/.exec(tokenOf(begun[keys.indexOf('x'.repeat(513))]!))!
    expect(await dedup.begin({ consumer, key: hashed })).toMatchObject({ status: 'won' })
    for (const key of ['', '\ud800', 7 as never, ['a'] as never]) {
      await expect(dedup.begin({ consumer, key })).rejects.toThrow(InvalidMessageError)
    }
  })

  test('R6 consumers have keys of their own', async () => {
    const dedup = await store()
    const mark = randomUUID()
    const claims = [
      { consumer: 'a', key: `b:${mark}` },
      { consumer: 'a:b', key: mark },
      { consumer: 'a%3Ab', key: mark },
      { consumer: 'A', key: `b:${mark}` },
    ]
    for (const each of claims) expect(await dedup.begin(each)).toMatchObject({ status: 'won' })
    for (const each of claims) expect(await dedup.begin(each)).toMatchObject({ status: 'in-flight' })
  })

  test('R9 the clock of the server decides, and every claim expires', async () => {
    const dedup = await store()
    vi.useFakeTimers({ toFake: ['Date'], now: new Date('2001-01-01') })
    onTestFinished(() => void vi.useRealTimers())
    const [done, open] = [claim(), claim()]
    await dedup.complete(tokenOf(await dedup.begin(done)))
    await dedup.begin(open)
    const now = await world.now()
    const result = await dedup.begin(done)
    if (result.status !== 'done') throw new Error(result.status)
    expect(Math.abs(result.firstProcessedAt.getTime() - now.getTime())).toBeLessThan(5000)
    const claims = await world.claims()
    expect(claims.length).toBeGreaterThan(1)
    for (const { key, expires } of claims) expect(expires, key).toBe(true)
  })

  test('R2 R3 two consumers receive every message at the same time, and some handlers fail at first: each message is handled once', async () => {
    const name = `consumer-${randomUUID()}`
    const ids = Array.from({ length: 50 }, (_, n) => `m${n}`)
    const failing = new Set(ids.filter((_, n) => n % 7 === 0))
    const done: string[] = []
    const handle = async ({ id }: InboxMessage): Promise<void> => {
      await sleep(2)
      if (failing.delete(id)) throw new Error('failed')
      done.push(id)
    }
    const retry = { attempts: 10, delayMs: () => 10 }
    const sources = [new MemorySource(), new MemorySource()]
    for (const source of sources) {
      for (const id of ids) source.send(id)
      const dedup = await store()
      await ConsumerUnderTest.started(source, handle, { name, dedup, retry, order: 'none', concurrency: 5 })
    }
    for (const source of sources) await source.accepted(ids.length)
    expect(done.toSorted()).toEqual(ids.toSorted())
    expect(failing.size).toBe(0)
  })
}

/** Returns the token of a claim that must be won. */
export function tokenOf(result: { readonly status: string; readonly token?: string }): string {
  if (result.token === undefined) throw new Error(`The claim is ${result.status}, and must be won.`)
  return result.token
}
