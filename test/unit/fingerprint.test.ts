import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { InvalidMessageError, InvalidOptionError, fingerprint } from '@txbox/core'

const of = (payload: unknown, options?: Parameters<typeof fingerprint>[0]): unknown =>
  fingerprint(options)({ id: '-', payload })

/** The same value with the members of every object in another order. */
function shuffled(value: unknown, swap: () => boolean): unknown {
  if (Array.isArray(value)) return value.map((item) => shuffled(item, swap))
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).map(([name, member]) => [name, shuffled(member, swap)] as const)
  return Object.fromEntries(swap() ? members.toReversed() : members)
}

describe('K7 fingerprint', () => {
  test('K7 the fingerprint does not depend on the order of object members', () => {
    const property = fc.property(fc.jsonValue(), fc.infiniteStream(fc.boolean()), (payload, swaps) => {
      expect(of(shuffled(payload, () => swaps.next().value))).toBe(of(payload))
    })
    fc.assert(property)
  })

  test('K7 the fingerprint stays the same after a round trip through JSON', () => {
    const property = fc.property(fc.jsonValue(), (payload) => {
      expect(of(JSON.parse(JSON.stringify(payload)))).toBe(of(payload))
    })
    fc.assert(property)
  })

  test('K7 two payloads have the same fingerprint exactly when they are equal as JSON', () => {
    const canonical = (value: unknown): string => JSON.stringify(sorted(value))
    const property = fc.property(
      fc.jsonValue({ maxDepth: 2 }),
      fc.jsonValue({ maxDepth: 2 }),
      (one, other) => {
        expect(of(one) === of(other)).toBe(canonical(one) === canonical(other))
      },
    )
    fc.assert(property, { numRuns: 500 })
  })

  const different: [string, unknown, unknown][] = [
    ['1 and "1"', { a: 1 }, { a: '1' }],
    ['null and absent', { a: null }, {}],
    ['[1,2] and [2,1]', [1, 2], [2, 1]],
    ['{} and []', {}, []],
    ['true and "true"', true, 'true'],
    ['"" and absent', { a: '' }, {}],
    ['"" and null', { a: '' }, { a: null }],
    ['nested and flat', { a: { b: 1 } }, { 'a.b': 1 }],
    ['composed and decomposed', '\u00e1', 'a\u0301'],
    ['a number and its neighbour', 0.1, 0.1 + Number.EPSILON],
    ['bytes and text', new TextEncoder().encode('a'), 'a'],
  ]
  test.for(different)('K7 the fingerprint distinguishes %s', ([, one, other]) =>
    expect(of(one)).not.toBe(of(other)),
  )

  const equal: [string, unknown, unknown][] = [
    ['1 and 1.0', JSON.parse('1'), JSON.parse('1.0')],
    ['1 and 1e0', JSON.parse('[1]'), JSON.parse('[1e0]')],
    ['0 and -0', 0, -0],
    ['undefined and absent', { a: undefined, b: 1 }, { b: 1 }],
    ['a Date and its text', { at: new Date(0) }, { at: '1970-01-01T00:00:00.000Z' }],
    ['a Buffer and a Uint8Array', Buffer.from('a'), new TextEncoder().encode('a')],
  ]
  test.for(equal)('K7 the fingerprint treats %s as equal', ([, one, other]) =>
    expect(of(one)).toBe(of(other)),
  )

  const cycle: Record<string, unknown> = {}
  cycle['a'] = { b: cycle }
  const unusable: [string, unknown][] = [
    ['NaN', { n: Number.NaN }],
    ['Infinity', [Infinity]],
    ['a BigInt', { n: 1n }],
    ['a lone surrogate', { text: 'a\ud800' }],
    ['a lone surrogate in a name', { 'a\ud800': 1 }],
    ['a cycle', cycle],
    ['a function', { f: () => 1 }],
    ['a symbol', { s: Symbol('s') }],
    ['undefined in a list', [1, undefined]],
    ['a hole in a list', Array(2)],
    ['a Map', { m: new Map([[1, 2]]) }],
    ['a Set', new Set([1])],
    ['no payload', undefined],
  ]
  test.for(unusable)('K7 %s is an InvalidMessageError', ([, payload]) => {
    expect(() => of(payload)).toThrow(InvalidMessageError)
  })

  test('K7 the same value twice is not a cycle', () => {
    const part = { a: 1 }
    expect(of([part, part])).toBe(of([{ a: 1 }, { a: 1 }]))
  })
})

describe('K7 selected fields', () => {
  const order = { order: { id: 7, lines: [{ sku: 'a', n: 1 }] }, sentAt: 'noon', trace: 'x' }
  const include = ['/order/id', '/order/lines']

  test('K7 only the selected fields count', () => {
    const other = { trace: 'y', order: { lines: [{ n: 1, sku: 'a' }], note: 'new', id: 7 } }
    expect(of(other, { include })).toBe(of(order, { include }))
    expect(of({ ...order, order: { ...order.order, id: 8 } }, { include })).not.toBe(of(order, { include }))
    expect(of({ ...order, sentAt: 'one', trace: undefined }, { exclude: ['/sentAt', '/trace'] })).toBe(
      of({ order: order.order }, { exclude: ['/sentAt', '/trace'] }),
    )
  })

  test('K7 a field that is not selected may have any value, even one that JSON cannot express', () => {
    expect(of({ ...order, trace: 1n }, { include })).toBe(of(order, { include }))
  })

  test('K7 a missing selected field differs from null and from ""', () => {
    const both = { include: ['/a', '/b'] }
    const [missing, nothing, empty] = [{}, { a: null }, { a: '' }].map((fields) =>
      of({ ...fields, b: 1 }, both),
    )
    expect(new Set([missing, nothing, empty]).size).toBe(3)
    expect(of({ a: undefined, b: 1 }, both)).toBe(missing)
    expect(of({ a: null }, { include: ['/a'] })).not.toBe(of({ a: '' }, { include: ['/a'] }))
  })

  test.for<[string, unknown, string[], string[]?]>([
    ['a field that the producer has renamed', { orderNumber: 7 }, ['/orderId']],
    ['several of them', { order: { number: 7 } }, ['/order/id', '/order/lines']],
    ['a field that is undefined', { orderId: undefined }, ['/orderId']],
    ['an empty object', {}, ['/orderId']],
    ['a field that is excluded where it is there', { a: { b: 1 } }, ['/a/b', '/c'], ['/a']],
    ['the length of a list', { list: [1, 2] }, ['/list/length']],
    ['an element that is named in another way', { list: [1, 2] }, ['/list/01', '/list/1.0', '/list/-']],
    ['a letter of a text', { text: 'abc' }, ['/text/0', '/text/length']],
    ['a byte', { bytes: Buffer.from('abc') }, ['/bytes/0', '/bytes/data']],
    ['a member that is inherited', {}, ['/constructor', '/toString', '/__proto__']],
    ['a part of what toJSON returns, which has none', { at: new Date(0) }, ['/at/getTime']],
  ])('K5 K7 a payload with none of the selected fields is refused: %s', ([, payload, include, exclude]) => {
    expect(() => of(payload, { include, exclude })).toThrow(InvalidMessageError)
    expect(() => of(payload, { include, exclude })).toThrow('none of the fields')
  })

  test('K7 pointers apply to the JSON of an object with toJSON', () => {
    const order = { id: 7, internal: { cached: 1 }, toJSON: () => ({ id: 7, total: { cents: 100 } }) }
    const parsed: unknown = JSON.parse(JSON.stringify({ order }))
    for (const options of [
      { include: ['/order/id'] },
      { include: ['/order/total/cents'] },
      { exclude: ['/order/total'] },
      { exclude: ['/order/total/cents'] },
      { include: ['/order'], exclude: ['/order/id'] },
      {},
    ]) {
      expect(of({ order }, options), JSON.stringify(options)).toBe(of(parsed, options))
      expect(of({ toJSON: () => ({ order }) }, options), JSON.stringify(options)).toBe(of(parsed, options))
    }
    expect(() => of({ order }, { include: ['/order/internal/cached'] })).toThrow(InvalidMessageError)
  })

  test('K7 a missing field is not confused with its neighbor', () => {
    const both = { include: ['/a', '/b'] }
    expect(of({ a: 1 }, both)).not.toBe(of({ b: 1 }, both))
    expect(of({ a: '1\n2' }, both)).not.toBe(of({ a: '1', b: 2 }, both))
  })

  test('K7 another selection never matches by accident', () => {
    const selections = [
      undefined,
      { include: ['/a'] },
      { include: ['/b'] },
      { include: ['/a', '/b'] },
      { exclude: ['/a'] },
      { exclude: ['/c'] },
      { include: ['/a'], exclude: ['/a/b'] },
    ]
    const payload = { a: 1, b: 1 }
    expect(new Set(selections.map((options) => of(payload, options))).size).toBe(selections.length)
  })

  test('K7 the order in which fields are named does not matter', () => {
    expect(of(order, { include: include.toReversed() })).toBe(of(order, { include }))
    expect(of(order, { include: [...include, ...include] })).toBe(of(order, { include }))
  })

  test('K7 members inherited from Object are not fields', () => {
    const include = ['/a', '/constructor', '/toString', '/__proto__']
    expect(of({ a: 1 }, { include })).toBe(of(JSON.parse('{"a":1}'), { include }))
    expect(of({ a: 1 }, { include })).not.toBe(of(JSON.parse('{"a":1,"__proto__":1}'), { include }))
  })

  test('JSON Pointers name members with / and ~, elements of lists, and the empty name', () => {
    const payload = { 'a/b': 1, 'm~n': 2, list: ['x', 'y'], '': 3 }
    const changed = { 'a/b': 9, 'm~n': 9, list: ['x', '9'], '': 9 }
    for (const pointer of ['/a~1b', '/m~0n', '/list/1', '/']) {
      expect(of(payload, { include: [pointer] }), pointer).not.toBe(of(changed, { include: [pointer] }))
    }
    expect(of(payload, { include: ['/list/0'] })).toBe(of(changed, { include: ['/list/0'] }))
  })

  test('excluding an element of a list leaves the others where they are', () => {
    const exclude = ['/list/0']
    expect(of({ list: ['x', 'y'] }, { exclude })).toBe(of({ list: ['z', 'y'] }, { exclude }))
    expect(of({ list: ['x', 'y'] }, { exclude })).not.toBe(of({ list: ['y', 'x'] }, { exclude }))
    expect(of({ list: ['x', 'y'] }, { exclude })).not.toBe(of({ list: ['y'] }, { exclude }))
  })

  test.for([
    { include: ['order'] },
    { include: ['/a~2'] },
    { exclude: ['a'] },
    { include: [7] },
    { include: '/a' },
    { include: [] },
    { includes: ['/a'] },
  ])('%j is an InvalidOptionError', (options) => {
    expect(() => fingerprint(options as never)).toThrow(InvalidOptionError)
  })
})

/** Equal, as text, exactly when the values are equal as JSON: by another way than the one under test. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return ['list', value.map(sorted)]
  if (typeof value !== 'object' || value === null) return value
  const names = Object.keys(value).toSorted()
  return ['object', names.map((name) => [name, sorted((value as Record<string, unknown>)[name])])]
}

test.for([
  ['text', '{"orderId":1}'],
  ['bytes', new Uint8Array([1])],
  ['null', null],
  ['a number', 7],
] as const)('K5 K7 a payload that was never parsed has no fields to select: %s', ([, payload]) => {
  expect(() => fingerprint({ include: ['/orderId'] })({ id: '1', payload })).toThrow(InvalidMessageError)
})

test('K7 a selection that leaves nothing is refused, since all messages would be one', () => {
  expect(() => fingerprint({ exclude: [''] })).toThrow(InvalidOptionError)
  expect(() => fingerprint({ include: ['/a/b'], exclude: ['/a'] })).toThrow(InvalidOptionError)
})
