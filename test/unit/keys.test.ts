import { createHash } from 'node:crypto'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  InvalidMessageError,
  InvalidOptionError,
  LIMITS,
  businessKey,
  messageId,
  sha256OfBody,
} from '@txbox/core'
import { idempotencyKey, inboxKey } from '@txbox/core/internal'

/** Text as it may come from a broker: any well-formed Unicode, often with what separates things elsewhere. */
const text = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 20 }),
  fc.string({
    unit: fc.constantFrom('a', '"', ',', '|', '[', ']', '\\', '\0', ' ', 'é', ':'),
    minLength: 1,
    maxLength: 8,
  }),
  fc.constantFrom(
    'x'.repeat(512),
    'x'.repeat(513),
    'é'.repeat(256),
    'é'.repeat(257),
    'sha256:',
    '["a"]',
    '[]',
  ),
  // The stored form of another key.
  fc.string({ minLength: 1 }).map((key) => inboxKey([key], 'c').stored),
  fc.string({ minLength: 600, maxLength: 700 }).map((key) => inboxKey(key, 'c').stored),
)
const key = fc.oneof(text, fc.array(text, { minLength: 1, maxLength: 4 }))

describe('inboxKey', () => {
  test('K2 K3 K4 two keys have the same stored form exactly when they are the same key', () => {
    const property = fc.property(key, key, (one, other) => {
      const same = JSON.stringify(one) === JSON.stringify(other)
      expect(inboxKey(one, 'c').stored === inboxKey(other, 'c').stored).toBe(same)
    })
    fc.assert(property, { numRuns: 2000 })
  })

  test('K4 parts that are split differently make different keys', () => {
    const property = fc.property(fc.array(text, { minLength: 2, maxLength: 4 }), fc.nat(), (parts, at) => {
      const cut = 1 + (at % (parts.length - 1))
      const joined = [...parts.slice(0, cut - 1), parts[cut - 1]! + parts[cut]!, ...parts.slice(cut + 1)]
      expect(inboxKey(joined, 'c').stored).not.toBe(inboxKey(parts, 'c').stored)
      expect(inboxKey(parts.join('|'), 'c').stored).not.toBe(inboxKey(parts, 'c').stored)
    })
    fc.assert(property, { numRuns: 1000 })
  })

  test('K3 a stored form fits its column, is well-formed, and has no NUL', () => {
    const property = fc.property(key, (given) => {
      const { stored } = inboxKey(given, 'c')
      expect(Buffer.byteLength(stored)).toBeLessThanOrEqual(LIMITS.storedKeyBytes)
      expect(stored.isWellFormed()).toBe(true)
      expect(stored).not.toContain('\0')
    })
    fc.assert(property, { numRuns: 1000 })
  })

  test('the text of a key, for people, is the key itself or a JSON array', () => {
    expect(inboxKey('order-7', 'c')).toEqual({ text: 'order-7', stored: 'order-7' })
    expect(inboxKey(['order-7', 'charge'], 'c').text).toBe('["order-7","charge"]')
    const long = 'x'.repeat(600)
    expect(inboxKey(long, 'c').text).toBe(long)
  })

  test('K3 the stored forms never change, so that claims from before an update still match', () => {
    const sha256 = (of: string): string => `sha256:${createHash('sha256').update(of).digest('hex')}`
    const long = 'x'.repeat(513)
    expect(inboxKey('x'.repeat(512), 'c').stored).toBe('x'.repeat(512))
    expect(inboxKey(long, 'c').stored).toBe(sha256(`text:${long}`))
    expect(inboxKey(['a', 'b'], 'c').stored).toBe('["a","b"]')
    expect(inboxKey([long], 'c').stored).toBe(sha256(`list:["${long}"]`))
    expect(inboxKey('["a","b"]', 'c').stored).toBe(sha256('text:["a","b"]'))
    expect(inboxKey('sha256:0', 'c').stored).toBe(sha256('text:sha256:0'))
    expect(inboxKey('a\0b', 'c').stored).toBe(sha256('text:a\0b'))
  })

  test.for([
    [''],
    [null],
    [undefined],
    [0],
    [7n],
    [true],
    [{}],
    [[]],
    [['']],
    [['a', '']],
    [['a', null]],
    [['a', undefined]],
    [['a', ['b']]],
    ['a\udc00'],
    [['a', '\ud800']],
    [Array.from({ length: 33 }, () => 'a')],
  ])('K5 %o is not a valid key', ([given]) => {
    expect(() => inboxKey(given, 'billing')).toThrow(InvalidMessageError)
    expect(() => inboxKey(given, 'billing')).toThrow(/billing/)
  })

  test('K5 a list with a missing element is not a valid key', () => {
    // oxlint-disable-next-line no-sparse-arrays -- what a careless `new Array(2)` is
    expect(() => inboxKey(['a', , 'b'], 'c')).toThrow(InvalidMessageError)
  })
})

describe('key extractors', () => {
  test('K6 messageId is the id, with the source if there is one', () => {
    const extract = messageId()
    expect(extract({ id: '1' })).toBe('1')
    expect(extract({ id: '1', source: undefined })).toBe('1')
    expect(extract({ id: '1', source: '/shop' })).toEqual(['/shop', '1'])
    expect(extract({ id: '1', correlationId: 'c', type: 't' })).toBe('1')
  })

  test('K5 an empty source is refused when the key is extracted, and not dropped', () => {
    expect(() => inboxKey(messageId()({ id: '1', source: '' }), 'c')).toThrow(InvalidMessageError)
  })

  test('K5 a message without an id is refused when the key is extracted, with the name of the field', () => {
    for (const none of [{}, { id: null }, { source: 's' }]) {
      const extract = (): unknown => messageId()(none as never)
      expect(extract).toThrow(InvalidMessageError)
      expect(extract).toThrow(/^The message has no 'id'.* option 'key'/)
    }
  })

  test('businessKey is the function that it was given', () => {
    const extract = businessKey((m: { id: string; payload: { order: string } }) => [
      m.payload.order,
      'charge',
    ])
    expect(extract({ id: '1', payload: { order: 'o' } })).toEqual(['o', 'charge'])
    expect(() => businessKey('order' as never)).toThrow(InvalidOptionError)
  })

  test('sha256OfBody is the SHA-256 of the bytes', () => {
    const abc = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
    expect(sha256OfBody('abc')).toBe(abc)
    expect(sha256OfBody(new TextEncoder().encode('abc'))).toBe(abc)
    expect(sha256OfBody(Buffer.from('é'))).toBe(sha256OfBody('é'))
    expect(() => sha256OfBody({} as never)).toThrow(InvalidMessageError)
    expect(() => sha256OfBody('\ud800')).toThrow(InvalidMessageError)
  })
})

describe('idempotencyKey', () => {
  test('I12 each pair of consumer and key has one idempotency key', () => {
    const property = fc.property(text, key, text, key, (consumer, one, otherConsumer, other) => {
      const same = consumer === otherConsumer && JSON.stringify(one) === JSON.stringify(other)
      const [mine, theirs] = [
        idempotencyKey(consumer, inboxKey(one, 'c')),
        idempotencyKey(otherConsumer, inboxKey(other, 'c')),
      ]
      expect(mine === theirs).toBe(same)
      expect(mine).toMatch(/^[0-9a-f]{64}$/)
    })
    fc.assert(property, { numRuns: 1000 })
  })

  test('I12 consumer and key are kept apart', () => {
    const [one, other] = [idempotencyKey('a', inboxKey('bc', 'c')), idempotencyKey('ab', inboxKey('c', 'c'))]
    expect(one).not.toBe(other)
  })
})
