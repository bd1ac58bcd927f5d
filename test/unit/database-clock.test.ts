import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { DatabaseClock } from '../../packages/inbox/src/database-clock.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const AT = Date.UTC(2030, 0, 1)

test('the clock of the database continues from its last answer, whatever the clock of the process says', async () => {
  const clock = new DatabaseClock()
  expect(clock.isStale).toBe(true)
  await clock.measure(async () => new Date(AT))
  expect(clock.now).toBe(AT)
  vi.setSystemTime(0)
  vi.advanceTimersByTime(59_999)
  expect([clock.isStale, clock.now]).toEqual([false, AT + 59_999])
  vi.advanceTimersByTime(1)
  expect(clock.isStale).toBe(true)
  await clock.measure(async () => new Date(AT + 1))
  expect([clock.isStale, clock.now]).toEqual([false, AT + 1])
})

test('while a call asks the database again, the others use the last answer; a failed question is asked again', async () => {
  const clock = new DatabaseClock()
  const first = Promise.withResolvers<Date>()
  const asking = clock.measure(() => first.promise)
  expect(clock.isStale, 'no call knows the time before the first answer').toBe(true)
  first.resolve(new Date(AT))
  await asking
  vi.advanceTimersByTime(60_000)
  const second = Promise.withResolvers<Date>()
  const failing = clock.measure(() => second.promise)
  expect([clock.isStale, clock.now]).toEqual([false, AT + 60_000])
  second.reject(new Error('gone'))
  await expect(failing).rejects.toThrow('gone')
  expect(clock.isStale).toBe(true)
})
