import { expect, test } from 'vitest'
import { ReusedHeaders } from '../../packages/rabbitmq/src/publish/reused-headers.ts'

type Headers = Record<string, string>

const cases: Record<string, readonly Headers[]> = {
  'none, then some, then none': [{}, { a: '1' }, { a: '2' }, {}, { a: '' }],
  'the same names, other values': [
    { a: '1', b: '2' },
    { a: '3', b: '4' },
    { a: '', b: '' },
  ],
  'fewer names, and more': [{ a: '1', b: '2' }, { a: '1' }, { a: '2', b: '3', c: '4' }, {}],
  'other names, as many': [{ a: '1' }, { b: '2' }, { a: '1' }],
  'the names in another order': [
    { a: '1', b: '2' },
    { b: '3', a: '4' },
  ],
  'names that objects have, or that look like places': [
    JSON.parse('{"__proto__":"1","constructor":"2","7":"x","toString":"3"}') as Headers,
    JSON.parse('{"__proto__":"4","constructor":"5","7":"y","toString":"6"}') as Headers,
  ],
}

for (const [name, messages] of Object.entries(cases)) {
  test(name, () => {
    const reused = new ReusedHeaders()
    for (const headers of messages) {
      expect(Object.entries(reused.of(headers))).toEqual(Object.entries(headers))
    }
  })
}

test('the object is reused as long as the names are the same, and is never the object of the message', () => {
  const reused = new ReusedHeaders()
  const [first, second] = [{ a: '1' }, { a: '2' }]
  const object = reused.of(first)
  expect(reused.of(second)).toBe(object)
  expect([first, second]).toEqual([{ a: '1' }, { a: '2' }])
})
