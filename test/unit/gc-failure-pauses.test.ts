import { expect, test } from 'vitest'
import { FAILURE_PAUSES } from '../../packages/gc/src/collection.ts'

test.for([() => 0, () => 1])('a run waits longer after each failure, but at most half a second', (random) => {
  const pauses = Array.from({ length: 9 }, (_, n) => FAILURE_PAUSES.delayMs(n + 1, random))
  expect(pauses).toEqual(pauses.toSorted((a, b) => a - b))
  expect(pauses[0]).toBeGreaterThanOrEqual(50)
  expect(pauses.at(-1)).toBeGreaterThan(200)
  expect(pauses.at(-1)).toBeLessThanOrEqual(500)
})
