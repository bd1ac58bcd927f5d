import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { InvalidMessageError } from '@txbox/core'
import { canonicalJson } from '@txbox/core/internal'

describe('canonicalJson, by RFC 8785', () => {
  test('the example of section 3.2.2 and 3.2.3', () => {
    const input = JSON.parse(`{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\"\\/",
      "literals": [null, true, false]
    }`) as unknown
    expect(canonicalJson(input)).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],' +
        String.raw`"string":"€$\u000f\nA'B\"\\\\\"/"}`,
    )
  })

  test('members are sorted by UTF-16 code units (section 3.2.3)', () => {
    const input = {
      '\u20ac': 'Euro Sign',
      '\r': 'Carriage Return',
      '\ufb33': 'Hebrew Letter Dalet With Dagesh',
      '1': 'One',
      '\ud83d\ude00': 'Emoji: Grinning Face',
      '\u0080': 'Control',
      '\u00f6': 'Latin Small Letter O With Diaeresis',
    }
    const values = Object.values(JSON.parse(canonicalJson(input)) as object)
    // As JSON.parse keeps the order of members, but for '1', which counts as an index and comes first.
    expect(values).toEqual([
      'One',
      'Carriage Return',
      'Control',
      'Latin Small Letter O With Diaeresis',
      'Euro Sign',
      'Emoji: Grinning Face',
      'Hebrew Letter Dalet With Dagesh',
    ])
    expect(canonicalJson(input).startsWith('{"\\r":"Carriage Return","1":"One",')).toBe(true)
  })

  test.for([
    [0, '0'],
    [-0, '0'],
    [5e-324, '5e-324'],
    [-5e-324, '-5e-324'],
    [1.7976931348623157e308, '1.7976931348623157e+308'],
    [9007199254740992, '9007199254740992'],
    [295147905179352830000, '295147905179352830000'],
    [9.999999999999997e22, '9.999999999999997e+22'],
    [1e23, '1e+23'],
    [Number('1.0000000000000001e23'), '1.0000000000000001e+23'],
    [0.000001, '0.000001'],
    [Number('333333333.33333325'), '333333333.33333325'],
    [1424953923781206.25, '1424953923781206.2'],
  ] as const)('the number %d is written %s (appendix B)', ([number, written]) => {
    expect(canonicalJson(number)).toBe(written)
  })

  test('the result is the same value, and canonicalizing it again changes nothing', () => {
    const property = fc.property(fc.jsonValue(), (value) => {
      const text = canonicalJson(value)
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
      expect(canonicalJson(JSON.parse(text))).toBe(text)
    })
    fc.assert(property)
  })

  test('toJSON is called, and undefined members are left out', () => {
    expect(canonicalJson({ at: new Date(0), b: undefined, a: { toJSON: () => [1] } })).toBe(
      '{"a":[1],"at":"1970-01-01T00:00:00.000Z"}',
    )
  })

  test('a member named __proto__ is a member like others', () => {
    expect(canonicalJson(JSON.parse('{"__proto__":1,"a":2}'))).toBe('{"__proto__":1,"a":2}')
  })

  test('objects of classes are written by their members, also without a prototype', () => {
    class Money {
      readonly amount = 1
    }
    expect(canonicalJson(new Money())).toBe('{"amount":1}')
    expect(canonicalJson(Object.assign(Object.create(null), { a: 1 }))).toBe('{"a":1}')
  })

  const refused: [string, unknown, string][] = [
    ['NaN', { 'a/b': [1, Number.NaN] }, '/a~1b/1'],
    ['a BigInt', { n: { m: 1n } }, '/n/m'],
    ['undefined', undefined, "''"],
    ['a Map', [new Map()], '/0'],
    ['an invalid Date', { at: new Date(Number.NaN) }, '/at'],
  ]
  test.for(refused)('%s is refused, and the error message names the place', ([, value, where]) => {
    expect(() => canonicalJson(value)).toThrow(InvalidMessageError)
    expect(() => canonicalJson(value)).toThrow(where)
  })

  test('nesting that would exhaust the stack is refused with an error of txbox', () => {
    const nested = JSON.parse('['.repeat(5000) + ']'.repeat(5000)) as unknown
    expect(() => canonicalJson(nested)).toThrow(InvalidMessageError)
  })
})
