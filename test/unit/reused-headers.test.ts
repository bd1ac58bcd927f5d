import { expect, test } from 'vitest'
import { ReusedHeaders } from '../../packages/rabbitmq/src/reused-headers.ts'

type Case = readonly [headers: Record<string, string>, key?: string]

const cases: Record<string, readonly Case[]> = {
  'none, with and without a key': [[{}], [{}, 'a'], [{}, 'b'], [{}], [{}, '']],
  'the same names, other values': [[{ a: '1', b: '2' }, 'k'], [{ a: '3', b: '4' }, 'l'], [{ a: '', b: '' }]],
  'fewer names, and more': [
    [{ a: '1', b: '2' }, 'k'],
    [{ a: '1' }, 'k'],
    [{ a: '2', b: '3', c: '4' }, 'k'],
    [{}, 'k'],
  ],
  'other names, as many': [[{ a: '1' }, 'k'], [{ b: '2' }, 'k'], [{ a: '1' }]],
  'the names in another order': [[{ a: '1', b: '2' }], [{ b: '3', a: '4' }]],
  'names that objects have, or that look like places': [
    [JSON.parse('{"__proto__":"1","constructor":"2","7":"x","toString":"3"}') as Record<string, string>, 'k'],
    [JSON.parse('{"__proto__":"4","constructor":"5","7":"y","toString":"6"}') as Record<string, string>, 'l'],
  ],
  "the key's own name among the headers: the key wins, where there is one": [
    [{ 'txbox-key': 'mine' }],
    [{ 'txbox-key': 'mine' }, 'k'],
    [{ 'txbox-key': 'other' }, 'l'],
    [{ 'txbox-key': 'other' }],
  ],
}

for (const [name, messages] of Object.entries(cases)) {
  test(name, () => {
    const reused = new ReusedHeaders()
    for (const [headers, key] of messages) {
      const expected = new Map(Object.entries(headers))
      if (key !== undefined) expected.set('txbox-key', key)
      expect(Object.entries(reused.of(headers, key))).toEqual([...expected])
    }
  })
}

test('the object is reused as long as the names are the same, and is never the object of the message', () => {
  const reused = new ReusedHeaders()
  const [first, second] = [{ a: '1' }, { a: '2' }]
  const object = reused.of(first, undefined)
  expect(reused.of(second, undefined)).toBe(object)
  expect([first, second]).toEqual([{ a: '1' }, { a: '2' }])
})
