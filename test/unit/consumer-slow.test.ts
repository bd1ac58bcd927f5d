import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Lets everything happen that is due within this time. */
const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)

test('N1 handling that takes longer than a minute is reported each minute, until it ends', async () => {
  const source = new MemorySource()
  const done = Promise.withResolvers<void>()
  const lines: string[] = []
  const subject = await ConsumerUnderTest.started(
    source,
    ({ id }) => (id === 'slow' ? done.promise : undefined),
    {
      handleTimeoutMs: Number.POSITIVE_INFINITY,
      logger: { ...silent, warn: (_, text) => void lines.push(text) },
    },
  )
  source.send('slow')
  source.send('quick')
  await pass(59_000)
  expect(subject.heard('slow')).toEqual([])
  await pass(62_000)
  expect(subject.heard('slow').length).toBeGreaterThan(0)
  await pass(120_000)
  expect(subject.heard('slow').length).toBeGreaterThan(2)
  for (const event of subject.heard('slow')) {
    expect(event).toMatchObject({ source: 'memory orders', message: { id: 'slow' }, deliveries: 1 })
    expect(event.durationMs).toBeGreaterThanOrEqual(60_000)
  }
  expect(lines[0]).toMatch(/^Message slow has been handled for \d\S* \S+ and is not finished/)
  expect(source.how('quick')).toEqual(['accept'])
  done.resolve()
  await pass(0)
  const reported = subject.heard('slow').length
  await pass(300_000)
  expect(subject.heard('slow').length).toBe(reported)
  expect(source.how('slow')).toEqual(['accept'])
})

test('N1 a consumer that has stopped reports nothing more', async () => {
  const source = new MemorySource()
  const subject = await ConsumerUnderTest.started(source, () => new Promise(() => undefined), {
    handleTimeoutMs: Number.POSITIVE_INFINITY,
  })
  source.send('a')
  await pass(0)
  const stopped = subject.consumer.stop({ timeoutMs: 0 })
  await pass(1000)
  await stopped
  expect(vi.getTimerCount()).toBe(0)
})

const silent = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
}
