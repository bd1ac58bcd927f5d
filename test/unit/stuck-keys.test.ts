import { expect, onTestFinished, test, vi } from 'vitest'
import { StuckKeys } from '../../packages/rabbitmq/src/publish/stuck-keys.ts'

test('O15 of a key that is not confirmed, one message is sent after each pause, until one is confirmed', () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const keys = new StuckKeys()
  expect(keys.admission('a')).toBe('together')
  keys.add('a')
  expect([keys.admission('a'), keys.admission('b')]).toEqual(['not-now', 'together'])
  for (let n = 0; n < 3; n += 1) {
    vi.advanceTimersByTime(30_000)
    expect([keys.admission('a'), keys.admission('a')]).toEqual(['alone', 'not-now'])
  }
  keys.answered('a')
  expect([keys.admission('a'), keys.admission('a')]).toEqual(['together', 'together'])
})

test('O15 of keys of which one has blocked a channel, messages are sent alone until they are confirmed or not', () => {
  const keys = new StuckKeys()
  keys.suspect(['a', 'b'])
  expect([keys.admission('a'), keys.admission('a'), keys.admission('b')]).toEqual(['alone', 'alone', 'alone'])
  expect(keys.admission('c')).toBe('together')
  keys.add('a')
  keys.answered('b')
  expect([keys.admission('a'), keys.admission('b')]).toEqual(['not-now', 'together'])
})
