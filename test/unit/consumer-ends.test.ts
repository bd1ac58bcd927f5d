import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { DedupStoreUnavailableError } from '@txbox/core'
import { createConsumer, type PlainConsumerOptions } from '@txbox/consumer'
import { ConsumerUnderTest, listen } from '../support/subjects/consumer-under-test.ts'
import { MemoryDedupStore } from '../support/subjects/memory-dedup-store.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const NEVER = new Promise<never>(() => undefined)
const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)

/** A store that stops answering. */
class SilentStore extends MemoryDedupStore {
  silent: string | undefined
  readonly released: string[] = []
  readonly #late = Promise.withResolvers<void>()

  constructor(silent?: string) {
    super()
    this.silent = silent
  }

  /** Answers all calls. */
  wake(): void {
    this.#late.resolve()
  }

  override async begin(claim: Parameters<MemoryDedupStore['begin']>[0]) {
    if (this.silent === 'begin') await this.#late.promise
    return super.begin(claim)
  }

  override async complete(...how: Parameters<MemoryDedupStore['complete']>) {
    if (this.silent === 'complete') await this.#late.promise
    return super.complete(...how)
  }

  override async release(token: string) {
    this.released.push(token)
    return super.release(token)
  }
}

test('C23 after stop no timer of a lingering batch keeps the process alive', async () => {
  const source = new MemorySource()
  for (const id of ['a', 'b']) source.send(id)
  const consumer = createConsumer({
    ...{ source, name: 'orders', logger: false },
    batch: { maxSize: 10, lingerMs: 20_000 },
    handler: () => undefined,
  })
  await consumer.start()
  await pass(10)
  await consumer.stop()
  expect(source.settled.map(({ id, how, counted }) => [id, how, counted])).toEqual([
    ['a', 'retry', false],
    ['b', 'retry', false],
  ])
  expect(vi.getTimerCount()).toBe(0)
})

test('C23 after stop no timer keeps the process alive while a handler hangs', async () => {
  const source = new MemorySource()
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, () => NEVER)
  await pass(0)
  const stopping = subject.consumer.stop({ timeoutMs: 1000 })
  await pass(1200)
  await stopping
  expect(vi.getTimerCount()).toBe(0)
})

test('C23 R7 stop keeps its time limit while a dedup store is silent, and the delivery goes back uncounted', async () => {
  const source = new MemorySource()
  source.send('a')
  const dedup = new SilentStore('begin')
  const subject = await ConsumerUnderTest.started(source, () => undefined, { dedup })
  await pass(0)
  const stopping = subject.consumer.stop({ timeoutMs: 1000 })
  await pass(1100)
  await stopping
  expect(source.settled).toMatchObject([{ id: 'a', how: 'retry', counted: false }])
  expect(subject.events).toEqual([])
  dedup.wake()
  await pass(0)
  expect(dedup.released.length, 'the mark that was made too late').toBe(1)
})

test.each([{}, { handleTimeoutMs: 1000 }] as Partial<PlainConsumerOptions>[])(
  'R7 a dedup store that is silent is unavailable: no attempt is counted, with %o',
  async (options) => {
    const source = new MemorySource()
    source.send('a')
    const dedup = new SilentStore('begin')
    const subject = await ConsumerUnderTest.started(source, () => undefined, { ...options, dedup })
    await pass(60_000)
    expect(subject.heard('unavailable').length).toBeGreaterThan(2)
    expect(subject.heard('unavailable')[0]?.error).toBeInstanceOf(DedupStoreUnavailableError)
    expect(subject.events.filter(({ event }) => event !== 'unavailable')).toEqual([])
    dedup.silent = undefined
    dedup.wake()
    await pass(60_000)
    expect(subject.heard('handled')).toMatchObject([{ deliveries: 1 }])
  },
)

test('C9 a dedup store that is silent when the message was handled does not hold the delivery', async () => {
  const source = new MemorySource()
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, () => undefined, {
    dedup: new SilentStore('complete'),
  })
  await pass(15_000)
  expect(source.how('a')).toEqual(['accept'])
  expect(subject.events.map(({ event }) => event)).toEqual(['error', 'handled'])
  expect(subject.heard('error')[0]?.error).toBeInstanceOf(DedupStoreUnavailableError)
})

test('C9 C23 a dedup store that is silent does not hold a stop', async () => {
  const source = new MemorySource()
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, () => undefined, {
    dedup: new SilentStore('complete'),
  })
  await pass(0)
  const stopping = subject.consumer.stop({ timeoutMs: 1000 })
  await pass(1000)
  await stopping
  expect(source.how('a')).toEqual(['accept'])
  expect(subject.events.map(({ event }) => event)).toEqual(['error', 'handled'])
})

test('C7 at most once: a message whose acceptance was in flight when the connection broke is dropped', async () => {
  const source = new MemorySource()
  source.onAccept = async () => {
    source.onAccept = () => undefined
    source.cut()
  }
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, () => undefined, { delivery: 'at-most-once' })
  await pass(0)
  expect(subject.events.map(({ event }) => event)).toEqual(['unavailable', 'dropped'])
  expect(String(subject.heard('dropped')[0]?.error)).toMatch(/connection broke while the source accepted/)
})

test('C7 at most once: a message that is lost before it is accepted is lost, and not dropped', async () => {
  const source = new MemorySource()
  for (const id of ['a', 'b']) source.send(id)
  const subject = await ConsumerUnderTest.started(source, () => NEVER, {
    delivery: 'at-most-once',
    concurrency: 1,
  })
  await pass(0)
  source.cut()
  await pass(0)
  expect(subject.heard('lost').map(({ message }) => message.id)).toEqual(['b'])
  expect(subject.heard('dropped')).toEqual([])
})

test('C15 context.ack throws where the promise of the handler decides', async () => {
  const source = new MemorySource()
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, (_message, context) => context.ack(), {
    retry: { attempts: 1, delayMs: () => 0 },
  })
  await pass(0)
  expect(String(subject.heard('dead-lettered')[0]?.error)).toMatch(
    /InvalidOptionError.*acknowledge: 'manual'/,
  )
})

test('C24 a logger whose methods reject does not end the process', async () => {
  const rejections: unknown[] = []
  const listener = (error: unknown): void => void rejections.push(error)
  process.on('unhandledRejection', listener)
  onTestFinished(() => void process.off('unhandledRejection', listener))
  const source = new MemorySource()
  source.send('a')
  // Against the type of a logger, as a logger in JavaScript may be.
  const reject: () => void = (): unknown => Promise.reject(new Error('The log is full.'))
  const events: ConsumerUnderTest['events'] = []
  const consumer = createConsumer({
    ...{ source, name: 'orders' },
    logger: { debug: reject, info: reject, warn: reject, error: reject },
    handler: () => undefined,
  })
  listen(consumer, events)
  await consumer.start()
  await pass(0)
  await consumer.stop()
  vi.useRealTimers()
  await new Promise((resolve) => setImmediate(resolve))
  expect(rejections).toEqual([])
  expect(events.map(({ event }) => event)).toEqual(['handled'])
})
