import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { PermanentError, TxboxError, type ConsumerContext } from '@txbox/consumer'
import { ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { MemoryDedupStore } from '../support/subjects/memory-dedup-store.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)
const every = (ms: number, attempts = 10) => ({ attempts, delayMs: () => ms })

test('C2 C3 a message that a store knows is not handled again, but accepted as a duplicate', async () => {
  const source = new MemorySource()
  const dedup = new MemoryDedupStore()
  const subject = await ConsumerUnderTest.started(source, () => undefined, { dedup })
  source.send('a')
  await pass(0)
  source.send('a')
  await pass(0)
  expect(subject.ids).toEqual(['a'])
  expect(source.how('a')).toEqual(['accept', 'accept'])
  expect(subject.heard('handled').map(({ outcome }) => outcome)).toEqual(['processed', 'duplicate'])
})

test('C4 a message in flight elsewhere is tried again after retryAfterMs, uncounted', async () => {
  const source = new MemorySource()
  const dedup = new MemoryDedupStore()
  await dedup.begin({ key: 'a', leaseMs: 1700 })
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, () => undefined, { dedup, retry: every(0, 2) })
  await pass(1999)
  expect(subject.runs).toEqual([])
  await pass(1)
  expect(subject.runs.map(({ deliveries }) => deliveries)).toEqual([1])
  expect(source.left).toEqual([])
})

test('C9 the mark is made right after the handler and before the accept; a failure leaves no mark', async () => {
  const source = new MemorySource()
  const dedup = new MemoryDedupStore()
  const marked: boolean[] = []
  source.onAccept = (id) => void marked.push(dedup.isHandled(id))
  source.send('a')
  await ConsumerUnderTest.started(
    source,
    (_message, _context, run) => {
      expect(dedup.isHandled('a')).toBe(false)
      if (run === 1) throw new Error('failed')
    },
    { dedup, retry: every(1000) },
  )
  await pass(0)
  expect(dedup.calls).toEqual(['begin a', 'release'])
  await pass(1000)
  expect(dedup.calls).toEqual(['begin a', 'release', 'begin a', 'complete'])
  expect(marked).toEqual([true])
})

test('C9 the lease of a mark is extended while the handler runs', async () => {
  const source = new MemorySource()
  const dedup = new MemoryDedupStore()
  source.send('a')
  await ConsumerUnderTest.started(source, () => new Promise((resolve) => void setTimeout(resolve, 100_000)), {
    dedup,
  })
  await pass(99_000)
  expect(await dedup.begin({ key: 'a', leaseMs: 1 })).toMatchObject({ status: 'in-flight' })
  await pass(1000)
  expect(dedup.isHandled('a')).toBe(true)
})

test('R8 in a chain of stores the first store that knows the message decides, and the claims in earlier stores are released', async () => {
  const source = new MemorySource()
  const dedup = [new MemoryDedupStore(), new MemoryDedupStore(), new MemoryDedupStore()]
  dedup[1]?.handled('a')
  source.send('a')
  source.send('b')
  const subject = await ConsumerUnderTest.started(source, () => undefined, { dedup, concurrency: 1 })
  await pass(0)
  expect(subject.ids).toEqual(['b'])
  expect(dedup.map(({ calls }) => calls)).toEqual([
    ['begin a', 'release', 'begin b', 'complete'],
    ['begin a', 'begin b', 'complete'],
    ['begin b', 'complete'],
  ])
})

test('R7 a store that cannot be reached: unavailable, uncounted, and nothing is handled meanwhile', async () => {
  const source = new MemorySource()
  const dedup = new MemoryDedupStore()
  dedup.failure = new TxboxError('TXBOX_DEDUP_STORE_UNAVAILABLE', 'down', { retryable: true })
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, () => undefined, { dedup, retry: every(0, 1) })
  await pass(5000)
  expect(subject.runs).toEqual([])
  expect(subject.heard('unavailable').length).toBeGreaterThan(1)
  dedup.failure = undefined
  await pass(30_000)
  expect(subject.runs.map(({ deliveries }) => deliveries)).toEqual([1])
})

test('C10 with a store, PermanentError makes a dead letter and then the mark', async () => {
  const source = new MemorySource()
  const dedup = new MemoryDedupStore()
  source.send('a')
  await ConsumerUnderTest.started(source, () => Promise.reject(new PermanentError('never')), { dedup })
  await pass(0)
  expect(source.rejected.length).toBe(1)
  expect(dedup.isHandled('a')).toBe(true)
})

test('C17 with manual acknowledgement the mark is made at the ack, not at the return', async () => {
  const source = new MemorySource()
  const dedup = new MemoryDedupStore()
  source.send('a')
  const contexts: ConsumerContext[] = []
  await ConsumerUnderTest.started(source, (_message, context) => void contexts.push(context), {
    acknowledge: 'manual',
    dedup,
  })
  await pass(1000)
  expect(dedup.isHandled('a')).toBe(false)
  contexts[0]?.ack()
  await pass(0)
  expect(dedup.isHandled('a')).toBe(true)
})

test('C9 a store that throws instead of rejecting undoes no effect: the message is accepted, and the error is reported', async () => {
  const source = new MemorySource()
  const dedup = new MemoryDedupStore()
  const failure = new Error('no promise')
  const broken = (): never => {
    throw failure
  }
  const subject = await ConsumerUnderTest.started(source, () => undefined, {
    dedup: Object.assign(dedup, { complete: broken, release: broken }),
    retry: every(0, 3),
  })
  source.send('a')
  await pass(0)
  expect(subject.ids).toEqual(['a'])
  expect(source.how('a')).toEqual(['accept'])
  expect(subject.heard('error').map(({ error }) => error)).toEqual([failure])
  expect(subject.consumer.figures.inHand).toBe(0)
})
