import { expect, onTestFinished, test, vi } from 'vitest'
import { StuckKeys } from '../../packages/rabbitmq/src/stuck-keys.ts'

test('O15 of a key that is not confirmed, one message is sent after each pause, until one is confirmed', () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const keys = new StuckKeys()
  expect(keys.admits('a')).toBe(true)
  keys.add('a')
  expect([keys.admits('a'), keys.admits('b')]).toEqual([false, true])
  for (let n = 0; n < 3; n += 1) {
    vi.advanceTimersByTime(30_000)
    expect([keys.admits('a'), keys.admits('a')]).toEqual([true, false])
  }
  keys.answered('a')
  expect([keys.admits('a'), keys.admits('a')]).toEqual([true, true])
})
