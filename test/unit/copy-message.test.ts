import { expect, test } from 'vitest'
import { copyMessage } from '@txbox/core/internal'

test('plain objects, arrays and bytes are copied, and a change of the original does not reach the copy', () => {
  const message = {
    id: 'a',
    headers: { x: '1' },
    payload: { list: [{ n: 1 }, [2]], bytes: new Uint8Array([1, 2]), buffer: Buffer.from([3]), none: null },
  }
  const copy = copyMessage(message)
  expect(copy).toEqual(message)
  message.headers.x = '2'
  message.payload.list.push([3])
  ;(message.payload.list[0] as { n: number }).n = 5
  message.payload.bytes[0] = 9
  message.payload.buffer[0] = 9
  expect(copy).toEqual({
    id: 'a',
    headers: { x: '1' },
    payload: { list: [{ n: 1 }, [2]], bytes: new Uint8Array([1, 2]), buffer: Buffer.from([3]), none: null },
  })
  expect(Buffer.isBuffer(copy.payload.buffer)).toBe(true)
})

test('an object of a class, a Date and a Map are shared with the copy', () => {
  class Money {
    cents = 900
  }
  const payload = {
    money: new Money(),
    at: new Date(0),
    map: new Map([[1, 2]]),
    list: new (class extends Array {})(),
  }
  const copy = copyMessage({ id: 'a', payload })
  expect(copy.payload).not.toBe(payload)
  for (const name of Object.keys(payload) as (keyof typeof payload)[]) {
    expect(copy.payload[name], name).toBe(payload[name])
  }
  const whole = new Money()
  expect(copyMessage(whole)).toBe(whole)
})

test('names such as __proto__, and objects without a prototype, stay what they are', () => {
  const payload = JSON.parse('{"__proto__":{"n":1},"constructor":{"n":2}}') as Record<string, { n: number }>
  const inner = { n: 3 }
  const bare = Object.assign(Object.create(null) as object, { inner })
  const copy = copyMessage({ payload, bare })
  expect(Object.keys(copy.payload)).toEqual(['__proto__', 'constructor'])
  expect(JSON.stringify(copy.payload)).toBe(JSON.stringify(payload))
  expect(Object.getOwnPropertyDescriptor(copy.payload, '__proto__')!.value).not.toBe(
    Object.getOwnPropertyDescriptor(payload, '__proto__')!.value,
  )
  expect(Object.getPrototypeOf(copy.bare)).toBe(null)
  expect(Reflect.get(copy.bare, 'inner')).toEqual(inner)
  expect(Reflect.get(copy.bare, 'inner')).not.toBe(inner)
})

test('cycles and 200,000 levels are copied', () => {
  const cycle: { self?: object; n: number } = { n: 1 }
  cycle.self = cycle
  const copy = copyMessage(cycle)
  expect(copy.self).toBe(copy)
  expect(copy).not.toBe(cycle)
  const deep = JSON.parse('['.repeat(5000) + ']'.repeat(5000)) as unknown
  let nested: unknown = deep
  for (let level = 0; level < 200_000; level += 1) nested = [nested]
  let levels = 0
  for (let left = copyMessage(nested); Array.isArray(left); left = (left as unknown[])[0]) levels += 1
  expect(levels).toBe(205_000)
})

test('objects that contain others many times are copied once each', () => {
  let shared: unknown[] = []
  for (let level = 0; level < 60; level += 1) shared = [shared, shared]
  const copy = copyMessage(shared)
  expect([copy[0] === copy[1], copy[0] === shared[0]]).toEqual([true, false])
})

test('a message that cannot be read is returned as it is', () => {
  const message = {
    id: 'a',
    get payload(): unknown {
      throw new Error('not now')
    },
  }
  expect(copyMessage(message)).toBe(message)
  expect([copyMessage(undefined), copyMessage('text')]).toEqual([undefined, 'text'])
})
