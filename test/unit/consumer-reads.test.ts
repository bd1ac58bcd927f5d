import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)
const after = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms))

test('C18 a source is asked for no more deliveries than there is room for', async () => {
  const source = new MemorySource()
  source.isGenerous = true
  for (let n = 0; n < 20; n += 1) source.send(`m${n}`)
  const subject = await ConsumerUnderTest.started(source, () => after(10), { concurrency: 2, prefetch: 4 })
  await pass(1000)
  expect(source.mostOut).toBe(4)
  expect(subject.runs.length).toBe(20)
})

test('C18 a source is asked for half of prefetch at a time, and for fewer deliveries when a handler is free', async () => {
  const source = new MemorySource()
  for (let n = 0; n < 40; n += 1) source.send(`m${n}`)
  const subject = await ConsumerUnderTest.started(source, () => after(10), { concurrency: 2, prefetch: 10 })
  await pass(200)
  expect(subject.runs.length).toBe(40)
  expect(source.limits.filter((limit) => limit < 5)).toEqual([])
  await pass(1000)
  source.send('late')
  await pass(20)
  expect(subject.ids.at(-1)).toBe('late')
})

test('C18 a source that is accepting half of prefetch is asked for no few deliveries meanwhile', async () => {
  const source = new MemorySource()
  for (let n = 0; n < 30; n += 1) source.send(`m${n}`)
  const gate = Promise.withResolvers<void>()
  source.onAccept = (id) => (['m0', 'm1'].includes(id) ? undefined : gate.promise)
  const subject = await ConsumerUnderTest.started(source, async () => undefined, {
    concurrency: 10,
    prefetch: 10,
  })
  await pass(100)
  // Two deliveries are accepted, and their handlers are free; eight are being accepted.
  expect(subject.consumer.figures).toMatchObject({ inHand: 8, running: 0 })
  expect(source.limits).toEqual([10])
  gate.resolve()
  await pass(100)
  expect(subject.runs.length).toBe(30)
  expect(source.left).toEqual([])
})
