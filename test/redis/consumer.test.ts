import { describe, expect, onTestFinished, test } from 'vitest'
import {
  createConsumer,
  DedupStoreUnavailableError,
  type ConsumerEvents,
  type InboxMessage,
  type RunsMessages,
} from '@txbox/consumer'
import { redisDedup } from '@txbox/redis'
import { ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'
import { Proxy } from '../support/worlds/proxy.ts'
import { until } from '../support/worlds/until.ts'
import { clientsOfTier, sleep, useRedis } from './redis-under-test.ts'

const redis = useRedis()
const IDS = Array.from({ length: 50 }, (_, n) => `m${n}`)
const soon = { attempts: 10, delayMs: () => 10 }

/** The names of consumers are those of the marks, so that every test has its own. */
let consumers = 0
const newName = (): string => `consumer-${(consumers += 1)}`

async function proxy(): Promise<Proxy> {
  const between = await Proxy.to(redis.address)
  onTestFinished(() => between.close())
  return between
}

describe.for(clientsOfTier('ioredis'))('%s', (library) => {
  test('R7 while Redis is gone, the consumer is unavailable and counts no attempt; afterwards each message is handled once', async () => {
    const between = await proxy()
    const source = new MemorySource()
    const dedup = redisDedup({ client: await redis.client(library, between.address) })
    const outage = between.refuse()
    for (const id of IDS.slice(0, 5)) source.send(id)
    const subject = await ConsumerUnderTest.started(source, () => undefined, {
      name: newName(),
      dedup,
      retry: { attempts: 1, delayMs: () => 0 },
    })
    await until(
      async () => subject.heard('unavailable').length > 0,
      () => 'the consumer reports unavailable',
      15_000,
    )
    expect(subject.heard('unavailable')[0]?.error).toBeInstanceOf(DedupStoreUnavailableError)
    expect(subject.runs).toEqual([])
    outage.over()
    await source.accepted(5)
    expect(subject.ids.toSorted()).toEqual(IDS.slice(0, 5).toSorted())
    expect(subject.runs.map(({ deliveries }) => deliveries)).toEqual([1, 1, 1, 1, 1])
    expect(source.rejected).toEqual([])
  })

  test("R7 with 'process' and an inbox the handler runs without Redis, and the inbox finds the duplicate", async () => {
    const between = await proxy()
    const source = new MemorySource()
    const dedup = redisDedup({
      client: await redis.client(library, between.address),
      onUnavailable: 'process',
    })
    between.refuse()
    const seen = new Set<string>()
    const inbox: RunsMessages<object> = {
      consumer: newName(),
      async run(message: InboxMessage, handler: (...args: never[]) => unknown) {
        if (seen.has(message.id)) return { status: 'duplicate' }
        await Reflect.apply(handler, undefined, [{}, message, {}])
        seen.add(message.id)
        return { status: 'processed', result: undefined }
      },
    } as never
    Object.assign(inbox, { runBatch: () => undefined })
    const handled: string[] = []
    const events: ConsumerEvents['handled'][] = []
    const errors: unknown[] = []
    const consumer = createConsumer({
      source,
      inbox,
      dedup,
      logger: false,
      handler: (_tx, { id }) => void handled.push(id),
    })
    consumer.on('handled', (event) => void events.push(event))
    consumer.on('error', ({ error }) => void errors.push(error))
    onTestFinished(() => consumer.stop({ timeoutMs: 0 }))
    await consumer.start()
    source.send('a')
    await source.accepted(1)
    source.send('a')
    await source.accepted(2)
    expect(handled).toEqual(['a'])
    expect(events.map(({ outcome }) => outcome)).toEqual(['processed', 'duplicate'])
    expect(errors.length).toBe(2)
    for (const error of errors) expect(error).toBeInstanceOf(DedupStoreUnavailableError)
  })

  test('R1 after FLUSHALL, messages that were handled and are delivered again are handled again, and no other messages are', async () => {
    const source = new MemorySource()
    const dedup = redisDedup({ client: await redis.client(library) })
    const flushed = Promise.withResolvers<void>()
    const [before, during, after] = [IDS.slice(0, 10), IDS.slice(10, 15), IDS.slice(15)]
    const handle = ({ id }: InboxMessage): unknown => (during.includes(id) ? flushed.promise : undefined)
    const subject = await ConsumerUnderTest.started(source, handle, { name: newName(), dedup, retry: soon })
    for (const id of [...before, ...during]) source.send(id)
    await source.accepted(before.length)
    await until(
      async () => during.every((id) => subject.running.has(id)),
      () => `these handlers run: ${[...subject.running].join()}`,
    )
    await redis.ask('FLUSHALL')
    flushed.resolve()
    for (const id of after) source.send(id)
    await source.accepted(IDS.length)
    expect(subject.ids.toSorted()).toEqual(IDS.toSorted())
    for (let round = 2; round <= 3; round++) {
      for (const id of IDS) source.send(id)
      await source.accepted(IDS.length * round)
    }
    // What was marked or in flight at FLUSHALL is handled twice, and nothing that came after it.
    const counts = (ids: readonly string[]): number[] => ids.map((id) => subject.of(id).length)
    expect(counts([...before, ...during])).toEqual([...before, ...during].map(() => 2))
    expect(counts(after)).toEqual(after.map(() => 1))
  })

  test('R5 a mark is kept for the retention of the store, unless the consumer sets another retention', async () => {
    const dedup = redisDedup({ client: await redis.client(library), retentionMs: 7_200_000 })
    for (const [retentionMs, expected] of [
      [undefined, 7_200_000],
      [3_600_000, 3_600_000],
    ]) {
      const name = newName()
      const source = new MemorySource()
      await ConsumerUnderTest.started(source, () => undefined, { name, dedup, retentionMs })
      source.send('a')
      await source.accepted(1)
      const left = (await redis.ask('PTTL', `txbox:${name}:a`)) as number
      expect(expected! - left).toBeGreaterThanOrEqual(0)
      expect(expected! - left).toBeLessThan(60_000)
    }
  })

  test('R1 a consumer warns at its start of a maxmemory-policy that evicts, and of no other policy', async () => {
    const dedup = redisDedup({ client: await redis.client(library) })
    onTestFinished(async () => void (await redis.ask('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')))
    for (const policy of ['noeviction', 'allkeys-lru']) {
      await redis.ask('CONFIG', 'SET', 'maxmemory-policy', policy)
      const warned: string[] = []
      const line = (): void => undefined
      const logger = {
        debug: line,
        info: line,
        error: line,
        warn: (_: unknown, text: string) => warned.push(text),
      }
      const source = new MemorySource({ countsDeliveries: true })
      const options = { name: newName(), dedup, logger: logger as never }
      await ConsumerUnderTest.started(source, () => undefined, options)
      const expected = policy === 'noeviction' ? 0 : 1
      if (expected === 0) await sleep(300)
      await expect.poll(() => warned.length).toBe(expected)
      for (const text of warned) expect(text).toContain('maxmemory-policy allkeys-lru')
    }
  })
})
