import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { InvalidOptionError, exponentialBackoff } from '@txbox/core'

const attempt = fc.integer({ min: 1, max: 10_000 })
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

test('the pause lies between half and all of the exponential step, and is never longer than maxMs', () => {
  const bounds = fc.tuple(fc.integer({ min: 1, max: 10_000 }), fc.integer({ min: 0, max: 1_000_000 }))
  const property = fc.property(bounds, attempt, random, ([minMs, more], n, chance) => {
    const maxMs = minMs + more
    const pause = exponentialBackoff({ minMs, maxMs }).delayMs(n, () => chance)
    const step = Math.min(maxMs, minMs * 2 ** (n - 1))
    expect(pause).toBeGreaterThanOrEqual(step / 2)
    expect(pause).toBeLessThanOrEqual(step)
  })
  fc.assert(property)
})

test('the longest pause never shrinks from one attempt to the next', () => {
  const policy = exponentialBackoff()
  const longest = Array.from({ length: 60 }, (_, n) => policy.delayMs(n + 1, () => 1 - Number.EPSILON))
  expect(longest).toEqual(longest.toSorted((a, b) => a - b))
  expect(longest[0]).toBeCloseTo(1000)
  expect(longest.at(-1)).toBeCloseTo(300_000)
})

test('defaults: 10 attempts, the first pause half a second to a second', () => {
  const policy = exponentialBackoff()
  expect(policy.attempts).toBe(10)
  expect([policy.delayMs(1, () => 0), policy.delayMs(2, () => 0)]).toEqual([500, 1000])
})

test('a minMs above the default maxMs raises maxMs', () => {
  expect(exponentialBackoff({ minMs: 600_000 }).delayMs(5, () => 0)).toBe(300_000)
})

test.for([
  { attempts: 0 },
  { attempts: 1.5 },
  { attempts: 1001 },
  { minMs: 0 },
  { minMs: Number.NaN },
  { minMs: 100, maxMs: 99 },
  { maxMs: Infinity },
  { minMs: '1s' },
  { factor: 2 },
])('%j is an InvalidOptionError', (options) => {
  expect(() => exponentialBackoff(options as never)).toThrow(InvalidOptionError)
})
