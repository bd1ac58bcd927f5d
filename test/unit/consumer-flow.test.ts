import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { HandleTimeoutError, RetryLaterError, type ConsumerContext } from '@txbox/consumer'
import { ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)
const every = (ms: number, attempts = 10) => ({ attempts, delayMs: () => ms })
const after = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms))

test('C6 a delivery that is lost while it waits has no handler; one whose handler runs has its signal aborted', async () => {
  const source = new MemorySource()
  for (const id of ['a', 'b']) source.send(id)
  const subject = await ConsumerUnderTest.started(source, () => after(1000), { concurrency: 1, prefetch: 2 })
  await pass(0)
  source.cut()
  await pass(0)
  expect(subject.runs[0]?.context.signal.aborted).toBe(true)
  expect(subject.heard('lost').map(({ message }) => message.id)).toEqual(['a', 'b'])
  await pass(10_000)
  // Each message is delivered again, and is handled then. The first settlement of a is not sent.
  expect(subject.ids).toEqual(['a', 'a', 'b'])
  expect(source.how('a')).toEqual(['accept'])
  expect(source.left).toEqual([])
})

test('C18 at most prefetch deliveries are held, and at most concurrency handlers run', async () => {
  const source = new MemorySource()
  for (let n = 0; n < 100; n += 1) source.send(`m${n}`)
  const subject = await ConsumerUnderTest.started(source, () => after(10), { concurrency: 3, prefetch: 7 })
  await pass(0)
  expect(subject.consumer.figures).toEqual({ inHand: 7, running: 3, waiting: 4, retrying: 0 })
  await pass(1000)
  expect(subject.runs.length).toBe(100)
  expect(subject.mostRunning).toBe(3)
  expect(source.mostOut).toBe(7)
  expect(subject.consumer.figures).toEqual({ inHand: 0, running: 0, waiting: 0, retrying: 0 })
})

test('C18 when the only running delivery fails and waits for its retry, the free handler gets another delivery', async () => {
  const source = new MemorySource()
  for (const id of ['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7', 'a8']) source.send(id, { key: 'a' })
  const subject = await ConsumerUnderTest.started(
    source,
    async ({ id }, _context, run) => {
      await after(10)
      if (id === 'a1' && run === 1) throw new Error('later')
    },
    { concurrency: 1, prefetch: 10, retry: every(5000) },
  )
  // Eight of ten are held behind the first one, which runs.
  await pass(5)
  source.send('b', { key: 'b' })
  await pass(100)
  expect(subject.ids).toEqual(['a1', 'b'])
  await pass(10_000)
  expect(subject.ids.length).toBe(10)
})

test('C19 at handleTimeoutMs the signal is aborted and the delivery has failed; a later result of the handler is ignored', async () => {
  const source = new MemorySource()
  source.send('a')
  const subject = await ConsumerUnderTest.started(
    source,
    (_message, _context, run) => after(run === 1 ? 2000 : 1),
    {
      handleTimeoutMs: 500,
      retry: every(1000),
    },
  )
  await pass(499)
  expect(subject.runs[0]?.context.signal.aborted).toBe(false)
  await pass(1)
  expect(subject.runs[0]?.context.signal.reason).toBeInstanceOf(HandleTimeoutError)
  expect(String(subject.heard('error')[0]?.error)).toContain('message a took longer than 500 ms')
  expect(subject.heard('retried').length).toBe(1)
  await pass(5000)
  expect(subject.of('a').map(({ deliveries }) => deliveries)).toEqual([1, 2])
  expect(source.how('a')).toEqual(['accept'])
})

test('C20 a higher concurrency lets the consumer receive at once, before a running handler has ended', async () => {
  const source = new MemorySource()
  for (let n = 0; n < 40; n += 1) source.send(`m${n}`)
  const subject = await ConsumerUnderTest.started(source, () => after(60_000), {
    concurrency: 1,
    prefetch: 20,
  })
  await pass(0)
  // Nine deliveries are handled. The consumer still holds eleven, which is more than half of its prefetch, so it receives no
  // others while its only handler is busy.
  for (let n = 0; n < 9; n += 1) await pass(60_000)
  expect(subject.consumer.figures).toMatchObject({ inHand: 11, running: 1 })
  subject.consumer.concurrency = 20
  await pass(0)
  expect(subject.consumer.figures).toMatchObject({ inHand: 20, running: 20 })
})

test('C20 concurrency can be changed while the consumer runs: a lower value applies when the running handlers have ended', async () => {
  const source = new MemorySource()
  for (let n = 0; n < 40; n += 1) source.send(`m${n}`)
  const subject = await ConsumerUnderTest.started(source, () => after(100), { concurrency: 2, prefetch: 8 })
  await pass(0)
  subject.consumer.concurrency = 8
  await pass(0)
  expect(subject.running.size).toBe(8)
  subject.consumer.concurrency = 1
  await pass(100)
  expect(subject.running.size).toBe(1)
})

test('C20 C18 concurrency cannot rise above prefetch, which is fixed: the error names prefetch, and nothing changes', async () => {
  const source = new MemorySource()
  for (let n = 0; n < 40; n += 1) source.send(`m${n}`)
  const subject = await ConsumerUnderTest.started(source, () => after(100), { concurrency: 2, prefetch: 8 })
  expect(() => (subject.consumer.concurrency = 9)).toThrow(
    "the option 'concurrency' must be a whole number from 1 to 8, the option 'prefetch', which is fixed while the consumer runs, not 9",
  )
  for (const wrong of [0, 1.5, Number.NaN]) {
    expect(() => (subject.consumer.concurrency = wrong)).toThrow(/1 to 8/)
  }
  expect(subject.consumer.concurrency).toBe(2)
  await pass(0)
  expect(subject.running.size).toBe(2)
})

test('C22 messages of a key run one at a time in the order received; other keys run beside them', async () => {
  const source = new MemorySource()
  for (let n = 0; n < 5; n += 1) for (const key of ['a', 'b']) source.send(`${key}${n}`, { key })
  const subject = await ConsumerUnderTest.started(source, () => after(10))
  await pass(0)
  expect([...subject.running]).toEqual(['a0', 'b0'])
  await pass(1000)
  expect(subject.mostRunning).toBe(2)
  for (const key of ['a', 'b']) {
    expect(subject.ids.filter((id) => id.startsWith(key))).toEqual([0, 1, 2, 3, 4].map((n) => `${key}${n}`))
  }
})

test("C22 with order 'none' messages of one key run at the same time", async () => {
  const source = new MemorySource()
  for (const id of ['a1', 'a2']) source.send(id, { key: 'a' })
  const subject = await ConsumerUnderTest.started(source, () => after(10), { order: 'none' })
  await pass(0)
  expect(subject.running.size).toBe(2)
})

test('C22 a message that goes back is reported as order-broken, where the source keeps no order', async () => {
  const source = new MemorySource()
  for (const id of ['a1', 'a2']) source.send(id, { key: 'a' })
  const subject = await ConsumerUnderTest.started(
    source,
    ({ id }, _context, run) => (id === 'a1' && run === 1 ? Promise.reject(new Error('down')) : undefined),
    { retry: every(60_000), holdMs: 1000 },
  )
  await pass(10_000)
  expect(subject.heard('order-broken')).toMatchObject([{ key: 'a', message: { id: 'a1' } }])
  expect(subject.ids.toSorted()).toEqual(['a1', 'a1', 'a2'])
})

test('C22 where the source keeps the order, messages that wait behind a message that goes back go back too, uncounted', async () => {
  const source = new MemorySource({ ordersKeys: true, delays: true })
  source.isGenerous = true
  const subject = await ConsumerUnderTest.started(
    source,
    ({ id }, _context, run) => (id === 'a1' && run === 1 ? Promise.reject(new Error('down')) : undefined),
    { retry: every(5000) },
  )
  for (const id of ['a1', 'a2', 'a3']) source.send(id, { key: 'a' })
  await pass(4999)
  expect(subject.ids).toEqual(['a1'])
  await pass(5000)
  expect(subject.ids).toEqual(['a1', 'a1', 'a2', 'a3'])
  expect(subject.runs.slice(2)).toMatchObject([{ deliveries: 1 }, { deliveries: 1 }])
  expect(subject.heard('order-broken')).toEqual([])
})

test('C21 leases are extended at a third, from receive until settle, also while a delivery waits', async () => {
  const source = new MemorySource({ leaseMs: 3000 })
  for (const id of ['a', 'b']) source.send(id)
  const subject = await ConsumerUnderTest.started(source, () => after(10_000), {
    concurrency: 1,
    prefetch: 2,
  })
  await pass(9999)
  expect(source.extensions.filter((id) => id === 'a').length).toBe(9)
  expect(source.extensions.filter((id) => id === 'b').length).toBe(9)
  expect(subject.heard('lost')).toEqual([])
  await pass(10_001)
  expect(subject.ids).toEqual(['a', 'b'])
  const extensions = source.extensions.length
  await pass(60_000)
  expect(source.extensions.length).toBe(extensions)
})

test('C21 a lease is not extended after handleTimeoutMs', async () => {
  const source = new MemorySource({ leaseMs: 3000, delays: true })
  source.send('a')
  await ConsumerUnderTest.started(source, () => after(60_000), {
    handleTimeoutMs: 2000,
    retry: every(60_000),
  })
  await pass(50_000)
  expect(source.extensions.length).toBe(1)
})

test('C15 manual: the return of the handler settles nothing, ack accepts, and only the first call counts', async () => {
  const source = new MemorySource()
  for (const id of ['a', 'b']) source.send(id)
  const contexts: ConsumerContext[] = []
  const subject = await ConsumerUnderTest.started(
    source,
    (_message, context) => void contexts.push(context),
    {
      acknowledge: 'manual',
      concurrency: 1,
      prefetch: 2,
    },
  )
  await pass(1000)
  // A handler that has returned makes room for the next one.
  expect(subject.ids).toEqual(['a', 'b'])
  expect(source.settled).toEqual([])
  contexts[0]?.ack(12)
  contexts[0]?.ack(12, new Error('too late'))
  contexts[1]?.ack(5, new Error('failed'))
  await pass(0)
  expect(source.settled).toEqual([{ id: 'a', how: 'accept' }])
  expect(subject.heard('handled')).toMatchObject([{ durationMs: 12 }])
  expect(subject.heard('retried')).toMatchObject([{ message: { id: 'b' } }])
})

test('C15 C16 manual: a handler that throws has failed; one that never acknowledges fails at handleTimeoutMs, with an error', async () => {
  const source = new MemorySource()
  for (const id of ['throws', 'forgets']) source.send(id)
  const subject = await ConsumerUnderTest.started(
    source,
    ({ id }) => (id === 'throws' ? Promise.reject(new Error('failed')) : undefined),
    { acknowledge: 'manual', handleTimeoutMs: 1000, retry: every(60_000), holdMs: 60_000 },
  )
  await pass(0)
  expect(subject.heard('retried').map(({ message }) => message.id)).toEqual(['throws'])
  await pass(1000)
  expect(subject.heard('retried').map(({ message }) => message.id)).toEqual(['throws', 'forgets'])
  expect(subject.heard('error')).toMatchObject([{ message: { id: 'forgets' } }])
})

test('C7 at most once: accepted before the handler is called; a failure is dropped and never retried', async () => {
  const source = new MemorySource()
  const accepted = Promise.withResolvers<void>()
  source.onAccept = () => accepted.promise
  source.send('a')
  const error = new Error('failed')
  const subject = await ConsumerUnderTest.started(source, () => Promise.reject(error), {
    delivery: 'at-most-once',
  })
  await pass(1000)
  expect(subject.runs).toEqual([])
  accepted.resolve()
  await pass(60_000)
  expect(subject.runs.length).toBe(1)
  expect(source.settled).toEqual([{ id: 'a', how: 'accept' }])
  expect(subject.heard('dropped')).toMatchObject([{ error, message: { id: 'a' } }])
})

test('C6 C7 at most once: no handler runs when the connection broke during the accept', async () => {
  const source = new MemorySource()
  source.onAccept = () => {
    if (source.opened === 1) source.cut()
  }
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, () => undefined, { delivery: 'at-most-once' })
  await pass(10_000)
  expect(subject.of('a').map(({ deliveries }) => deliveries)).toEqual([2])
  expect(source.left).toEqual([])
})

test('C25 of several messages that may end the process, each is handled alone, keys stay in order, and no message waits forever', async () => {
  const source = new MemorySource()
  source.send('a', { key: 'x' })
  source.send('b', { key: 'x', isSuspect: true })
  source.send('c', { key: 'x' })
  source.send('d', { key: 'y', isSuspect: true })
  source.send('e', { key: 'y' })
  source.send('f')
  source.send('g', { isSuspect: true })
  const beside = new Map<string, string[]>()
  const started = Promise.withResolvers<ConsumerUnderTest>()
  const subject: ConsumerUnderTest = await ConsumerUnderTest.started(
    source,
    async ({ id }) => {
      // The first handler is called before the consumer has started.
      const subject = await started.promise
      beside.set(id, [...subject.running])
      await new Promise((resolve) => void setTimeout(resolve, 10))
      if (id === 'd' && subject.of('d').length === 1) throw new RetryLaterError({ retryAfterMs: 20 })
    },
    { concurrency: 8 },
  )
  started.resolve(subject)
  await pass(1000)
  expect(source.left).toEqual([])
  for (const id of ['b', 'd', 'g']) expect(beside.get(id)).toEqual([id])
  const order = (ids: string[]): string[] => subject.ids.filter((id) => ids.includes(id))
  expect(order(['a', 'b', 'c'])).toEqual(['a', 'b', 'c'])
  expect(order(['d', 'e'])).toEqual(['d', 'd', 'e'])
})

test('the signal and the idempotency key are there in a copy of the context, a proxy, and an object that inherits from it', async () => {
  const source = new MemorySource()
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, (_message, context) => {
    const { signal, idempotencyKey } = context
    for (const other of [{ ...context }, new Proxy(context, {}), Object.create(context) as ConsumerContext]) {
      expect([other.signal, other.idempotencyKey]).toEqual([signal, idempotencyKey])
    }
  })
  await pass(0)
  expect(subject.ids).toEqual(['a'])
  expect(source.how('a')).toEqual(['accept'])
})
