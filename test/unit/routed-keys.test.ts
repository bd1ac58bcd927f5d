import { expect, onTestFinished, test, vi } from 'vitest'
import { RoutedKeys } from '../../packages/rabbitmq/src/publish/routed-keys.ts'

test('O15 of a key that was routed and is not any more, one message is sent after each pause, until one is routed', () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const keys = new RoutedKeys()
  expect([keys.returned('a'), keys.admits('a')]).toEqual([false, true])
  keys.routed('a')
  expect([keys.returned('a'), keys.admits('a'), keys.admits('b')]).toEqual([true, false, true])
  for (let round = 0; round < 3; round += 1) {
    vi.advanceTimersByTime(29_999)
    expect(keys.admits('a')).toBe(false)
    vi.advanceTimersByTime(1)
    expect([keys.admits('a'), keys.admits('a')]).toEqual([true, false])
  }
  keys.routed('a')
  expect([keys.admits('a'), keys.admits('a')]).toEqual([true, true])
})

test('the last 10,000 keys are remembered, and a number of older ones that is limited', () => {
  const keys = new RoutedKeys()
  const names = Array.from({ length: 30_001 }, (_, n) => `key ${n}`)
  for (const name of names) {
    keys.routed('in use')
    keys.routed(name)
  }
  expect(names.slice(-9_999).every((name) => keys.returned(name))).toBe(true)
  expect(keys.returned('in use')).toBe(true)
  expect(names.filter((name) => keys.returned(name)).length).toBeLessThan(20_001)
})
