import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { InvalidMessageError, PermanentError, RetryLaterError, exponentialBackoff } from '@txbox/consumer'
import { ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Lets everything happen that is due within this time. */
const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)
const every = (ms: number, attempts = 10) => ({ attempts, delayMs: () => ms })

test('C1 a delivery is accepted after the handler has resolved, and not before', async () => {
  const source = new MemorySource()
  const done = Promise.withResolvers<void>()
  await ConsumerUnderTest.started(source, () => done.promise)
  source.send('a')
  await pass(60_000)
  expect(source.settled).toEqual([])
  done.resolve()
  await pass(0)
  expect(source.settled).toEqual([{ id: 'a', how: 'accept' }])
})

test('C5 an undecodable delivery is a dead letter at once, and its neighbors continue', async () => {
  const source = new MemorySource()
  const error = new InvalidMessageError('not JSON')
  for (const id of ['a', 'b', 'c']) source.send(id, id === 'b' ? { undecodable: error } : {})
  const subject = await ConsumerUnderTest.started(source, () => undefined)
  await pass(0)
  expect(subject.ids).toEqual(['a', 'c'])
  expect(source.rejected.map(({ id }) => id)).toEqual(['b'])
  expect(subject.heard('dead-lettered')).toMatchObject([{ error, deliveries: 1, source: 'memory orders' }])
  expect(source.left).toEqual([])
})

test.each([new PermanentError('never'), new InvalidMessageError('wrong')])(
  'C10 %s makes a dead letter at the first attempt',
  async (error) => {
    const source = new MemorySource()
    source.send('a')
    const subject = await ConsumerUnderTest.started(source, () => {
      throw error
    })
    await pass(0)
    expect(source.settled).toEqual([{ id: 'a', how: 'reject', error }])
    expect(subject.heard('dead-lettered').length).toBe(1)
    expect(subject.runs.length).toBe(1)
  },
)

test.each([true, false])(
  'C10 C11 retries in the process: after attempts deliveries the message becomes a dead letter; source with delays: %s',
  async (delays) => {
    const source = new MemorySource({ delays })
    source.send('a')
    const error = new Error('down')
    const subject = await ConsumerUnderTest.started(source, () => Promise.reject(error), {
      retry: every(1000, 4),
    })
    await pass(2999)
    expect(subject.of('a').map(({ deliveries }) => deliveries)).toEqual([1, 2, 3])
    await pass(1)
    expect(subject.of('a').map(({ deliveries }) => deliveries)).toEqual([1, 2, 3, 4])
    expect(source.rejected.map(({ id }) => id)).toEqual(['a'])
    expect(subject.heard('retried')).toMatchObject(
      [1, 2, 3].map((deliveries) => ({ deliveries, delayMs: 1000, error })),
    )
    await pass(60_000)
    expect(subject.runs.length).toBe(4)
  },
)

test.each([{ code: '53100' }, { errno: 1114, code: 'ER_RECORD_FILE_FULL' }])(
  'C12 while the disk of the database is full (%o), no message pays for it',
  async (is) => {
    const source = new MemorySource()
    source.send('a')
    let isFull = true
    const subject = await ConsumerUnderTest.started(
      source,
      () => {
        if (isFull) throw Object.assign(new Error('No space left on device'), is)
      },
      { retry: every(1000, 2) },
    )
    await pass(300_000)
    expect(subject.heard('unavailable').length).toBeGreaterThan(5)
    isFull = false
    await pass(30_000)
    expect(source.settled).toEqual([{ id: 'a', how: 'accept' }])
    expect(subject.of('a').every(({ deliveries }) => deliveries === 1)).toBe(true)
    expect(subject.heard('dead-lettered').length + subject.heard('retried').length).toBe(0)
  },
)

test.each([undefined, null, Number.NaN, -1, Number.POSITIVE_INFINITY, 1e300, '5'])(
  'C11 a retry policy that returns %s is reported, and the delivery is retried after 1 s',
  async (wrong) => {
    const source = new MemorySource({ delays: true })
    source.send('a')
    const subject = await ConsumerUnderTest.started(source, () => Promise.reject(new Error('down')), {
      retry: { attempts: 3, delayMs: () => wrong as number },
    })
    await pass(999)
    expect(subject.runs.length).toBe(1)
    await pass(1)
    expect(subject.runs.length).toBe(2)
    await pass(1000)
    expect(source.rejected.map(({ id }) => id)).toEqual(['a'])
    expect(subject.heard('retried')).toMatchObject([{ delayMs: 1000 }, { delayMs: 1000 }])
    expect(subject.heard('error').map(({ error }) => String(error))).toEqual(
      [1, 2].map((delivery) =>
        expect.stringContaining(
          `After delivery ${delivery} of a message of consumer 'orders', delayMs of the retry policy is `,
        ),
      ),
    )
  },
)

test('C11 a RetryLaterError whose delay is longer than any source can keep is reported, and the delivery retried after 1 s', async () => {
  const source = new MemorySource({ delays: true })
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, (_, __, run) => {
    if (run === 1) throw new RetryLaterError({ retryAfterMs: Number.MAX_VALUE })
  })
  await pass(1000)
  expect(source.settled.at(-1)).toEqual({ id: 'a', how: 'accept' })
  expect(subject.heard('error')).toMatchObject([{ error: { code: 'TXBOX_INVALID_OPTION' } }])
  expect(String(subject.heard('error')[0]!.error)).toContain('retryAfterMs of the error is ')
})

test('C10 attempts end also where the source keeps no count and delays are longer than holdMs', async () => {
  const source = new MemorySource({ countsDeliveries: false })
  source.send('a')
  const retry = exponentialBackoff({ attempts: 8, minMs: 1000, maxMs: 60_000 })
  const subject = await ConsumerUnderTest.started(source, () => Promise.reject(new Error('down')), {
    retry,
    holdMs: 3000,
  })
  await pass(300_000)
  expect(subject.runs.length).toBe(8)
  expect(source.rejected.length).toBe(1)
})

test('C10 a redriven message begins with its first attempt, where the source keeps delays and counts', async () => {
  const source = new MemorySource({ delays: true })
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, () => Promise.reject(new Error('down')), {
    retry: every(1000),
  })
  await pass(1000)
  source.redrive('a')
  await pass(0)
  expect(subject.of('a').map(({ deliveries }) => deliveries)).toEqual([1, 2, 1])
})

test('C11 a delivery whose delay is longer than holdMs stays in the process for holdMs, and then goes back, counted', async () => {
  const source = new MemorySource()
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, () => Promise.reject(new Error('down')), {
    retry: every(60_000),
    holdMs: 10_000,
  })
  await pass(9999)
  expect(subject.runs.length).toBe(1)
  expect(source.settled).toEqual([])
  await pass(1)
  expect(source.settled).toMatchObject([{ how: 'retry', counted: true }])
  expect(subject.of('a').map(({ deliveries }) => deliveries)).toEqual([1, 2])
})

test('C12 after a RetryLaterError of up to localDelayMs the retry is local: behind the waiting messages, with the same count of deliveries, and without the broker', async () => {
  const source = new MemorySource()
  for (const id of ['a', 'b', 'c']) source.send(id)
  const subject = await ConsumerUnderTest.started(
    source,
    ({ id }, _, run) => {
      if (id === 'a' && run <= 2) throw new RetryLaterError()
    },
    { concurrency: 1, prefetch: 10 },
  )
  await pass(0)
  expect(subject.ids).toEqual(['a', 'b', 'c', 'a', 'a'])
  expect(subject.of('a')).toMatchObject([0, 1, 2].map((localRetries) => ({ localRetries, deliveries: 1 })))
  expect(source.how('a')).toEqual(['accept'])
  expect(subject.heard('retried', 'a')).toMatchObject([{ local: true }, { local: true }])
})

test('C12 after localRetries the next attempt counts as a delivery', async () => {
  const source = new MemorySource()
  source.send('a')
  const subject = await ConsumerUnderTest.started(
    source,
    (_message, _context, run) => {
      if (run <= 4) throw new RetryLaterError({ retryAfterMs: 20 })
    },
    { localRetries: 2 },
  )
  await pass(1000)
  expect(subject.runs.map(({ deliveries, localRetries }) => [deliveries, localRetries])).toEqual([
    [1, 0],
    [1, 1],
    [1, 2],
    [2, 0],
    [2, 1],
  ])
})

test('C13 four local retries, then 10 s: five runs, no redelivery before 10 s, then localRetries is 0 again', async () => {
  const source = new MemorySource({ delays: true })
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, (_message, { localRetries, deliveries }) => {
    if (deliveries > 1) return
    if (localRetries > 3) throw new RetryLaterError({ retryAfterMs: 10_000 })
    throw new RetryLaterError()
  })
  await pass(9999)
  expect(subject.runs.map(({ localRetries }) => localRetries)).toEqual([0, 1, 2, 3, 4])
  expect(source.settled).toMatchObject([{ how: 'retry', delayMs: 10_000, counted: true }])
  await pass(1)
  expect(subject.runs.slice(5)).toMatchObject([{ localRetries: 0, deliveries: 2 }])
  expect(source.how('a')).toEqual(['retry', 'accept'])
})

test('C11 after a RetryLaterError the message waits for the time of the error; its key waits with it, and other keys continue', async () => {
  const source = new MemorySource()
  for (const id of ['a1', 'a2', 'b1']) source.send(id, { key: id[0]! })
  const subject = await ConsumerUnderTest.started(source, ({ id }, _context, run) => {
    if (id === 'a1' && run === 1) throw new RetryLaterError({ retryAfterMs: 5000 })
  })
  await pass(4999)
  expect(subject.ids).toEqual(['a1', 'b1'])
  await pass(1)
  expect(subject.ids).toEqual(['a1', 'b1', 'a1', 'a2'])
  expect(subject.heard('order-broken')).toEqual([])
})

test('C25 a delivery beyond attempts is a dead letter without a call of the handler', async () => {
  const source = new MemorySource()
  source.send('killer', { count: 3 })
  source.send('last chance', { count: 2 })
  const subject = await ConsumerUnderTest.started(source, () => undefined, { retry: every(0, 3) })
  await pass(0)
  expect(subject.ids).toEqual(['last chance'])
  expect(source.rejected.map(({ id }) => id)).toEqual(['killer'])
})

test('C10 C22 attempts that were made in the process are not forgotten when the connection breaks', async () => {
  const source = new MemorySource({ countsDeliveries: false })
  source.send('a')
  const failed = Promise.reject(new Error('failed'))
  failed.catch(() => undefined)
  const subject = await ConsumerUnderTest.started(source, () => failed, { retry: every(1000, 6) })
  for (let n = 0; n < 4; n += 1) {
    await pass(1500)
    source.cut()
  }
  await pass(10_000)
  expect(source.rejected.map(({ id }) => id)).toEqual(['a'])
  expect(subject.of('a').map(({ deliveries }) => deliveries)).toEqual([1, 2, 3, 4, 5, 6])
})
