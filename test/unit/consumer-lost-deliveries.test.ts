import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { DatabaseUnavailableError } from '@txbox/core'
import { ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Lets everything happen that is due within this time. */
const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)
const every = (ms: number, attempts = 10) => ({ attempts, delayMs: () => ms })

test.each([true, false, 'per-delivery'] as const)(
  'C10 C24 deliveries that were lost with the connection are no attempts; the source counts: %s',
  async (countsDeliveries) => {
    const source = new MemorySource({ countsDeliveries })
    for (const id of ['running', 'waiting', 'unkeyed']) source.send(id, id === 'unkeyed' ? {} : { key: 'k' })
    let isBroken = true
    const subject = await ConsumerUnderTest.started(
      source,
      async (_, { signal }) => {
        if (!isBroken) throw new Error('failed')
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
      },
      { retry: every(1000, 3) },
    )
    for (let n = 0; n < 15; n += 1) {
      await pass(4000)
      source.cut()
    }
    isBroken = false
    await pass(20_000)
    expect(source.rejected.map(({ id }) => id).toSorted()).toEqual(['running', 'unkeyed', 'waiting'])
    for (const dead of subject.heard('dead-lettered')) expect(String(dead.error)).toContain('failed')
    // Each message has its three attempts, and the handler knows the number of all deliveries.
    for (const id of ['running', 'waiting', 'unkeyed']) {
      const deliveries = subject.of(id).map((run) => run.deliveries)
      expect(deliveries.slice(-3)).toEqual([16, 17, 18])
    }
  },
)

test('C10 C24 failures count although deliveries are lost between them', async () => {
  const source = new MemorySource()
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, () => Promise.reject(new Error('failed')), {
    retry: every(1000, 4),
  })
  for (let n = 0; n < 4; n += 1) {
    await pass(500)
    source.cut()
    await pass(4000)
  }
  expect(source.rejected.map(({ id }) => id)).toEqual(['a'])
  expect(subject.runs.length).toBe(4)
})

test('C10 C24 a delivery that is lost during the pause of an outage was no attempt', async () => {
  const source = new MemorySource()
  source.send('a')
  let isDown = true
  const subject = await ConsumerUnderTest.started(
    source,
    () => {
      throw isDown ? new DatabaseUnavailableError('down') : new Error('failed')
    },
    { retry: every(1000, 2) },
  )
  for (let n = 0; n < 5; n += 1) {
    await pass(1)
    source.cut()
    await pass(4000)
  }
  expect(source.rejected).toEqual([])
  isDown = false
  subject.runs.length = 0
  await pass(20_000)
  expect(subject.runs.length).toBe(2)
  expect(source.rejected.map(({ id }) => id)).toEqual(['a'])
})

test('C10 what was lost is forgotten when the message has ended', async () => {
  const source = new MemorySource()
  source.send('a')
  let isGood = false
  await ConsumerUnderTest.started(
    source,
    async (_, { signal }) => {
      if (!isGood) await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    },
    { retry: every(1000, 3) },
  )
  for (let n = 0; n < 5; n += 1) {
    await pass(4000)
    source.cut()
  }
  isGood = true
  await pass(4000)
  expect(source.left).toEqual([])
  // Another message with the same id, which has crashed its processes.
  source.send('a', { count: 3 })
  await pass(4000)
  expect(source.rejected.map(({ id }) => id)).toEqual(['a'])
})
