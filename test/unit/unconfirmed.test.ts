import { expect, test } from 'vitest'
import { Unconfirmed } from '../../packages/rabbitmq/src/publish/unconfirmed.ts'

test('takes out the message with a tag, or all messages up to it, in order, each once', () => {
  const unconfirmed = new Unconfirmed<string>()
  for (const entry of ['one', 'two', 'three', 'four', 'five']) unconfirmed.add(entry)
  expect(unconfirmed.take(3, false)).toEqual(['three'])
  expect(unconfirmed.take(3, false)).toEqual([])
  expect(unconfirmed.take(4, true)).toEqual(['one', 'two', 'four'])
  expect(unconfirmed.take(2, true)).toEqual([])
  expect(unconfirmed.take(99, false)).toEqual([])
  expect(unconfirmed.size).toBe(1)
  expect(unconfirmed.take(99, true)).toEqual(['five'])
  expect(unconfirmed.size).toBe(0)
})

test('finds matching messages while they are present', () => {
  const unconfirmed = new Unconfirmed<string>()
  for (const entry of ['one', 'two', 'three', 'four', 'five']) unconfirmed.add(entry)
  const withO = (entry: string): boolean => entry.includes('o')
  expect(unconfirmed.matching(withO)).toEqual(['one', 'two', 'four'])
  unconfirmed.take(2, false)
  expect(unconfirmed.matching(withO)).toEqual(['one', 'four'])
  unconfirmed.take(4, true)
  expect(unconfirmed.matching(withO)).toEqual([])
  unconfirmed.clear()
  expect(unconfirmed.matching(() => true)).toEqual([])
})

test('continues counting tags after it is cleared', () => {
  const unconfirmed = new Unconfirmed<string>()
  unconfirmed.add('one')
  unconfirmed.clear()
  expect(unconfirmed.size).toBe(0)
  unconfirmed.add('two')
  expect(unconfirmed.take(1, false)).toEqual([])
  expect(unconfirmed.take(2, false)).toEqual(['two'])
})

test('behaves like a Map by tag, whatever is confirmed, and forgets the messages that it has returned', () => {
  const unconfirmed = new Unconfirmed<number>()
  const map = new Map<number, number>()
  let seed = 4711
  const random = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
    return Math.floor((seed / 2 ** 31) * below)
  }
  let last = 0
  for (let step = 0; step < 20_000; step++) {
    for (let sending = random(5); sending > 0; sending--) {
      unconfirmed.add(++last)
      map.set(last, last)
    }
    const multiple = random(8) === 0
    // Mostly one of the last messages; sometimes one that has waited for long, or was already removed.
    const tag = Math.max(1, last - random(random(50) === 0 ? 20_000 : 30))
    const expected = multiple ? [...map.keys()].filter((each) => each <= tag) : map.has(tag) ? [tag] : []
    for (const each of expected) map.delete(each)
    expect(unconfirmed.take(tag, multiple)).toEqual(expected)
    expect(unconfirmed.size).toBe(map.size)
  }
  expect(last).toBeGreaterThan(30_000)
})
