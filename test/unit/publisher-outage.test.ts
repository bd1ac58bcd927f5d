import { expect, test } from 'vitest'
import { PublisherOutage } from '../../packages/relay/src/publisher-outage.ts'

test('O6 calls that fail together count once, and the pauses grow until a call succeeds', () => {
  const outage = new PublisherOutage()
  expect(outage.remainingMs(0)).toBe(0)
  const first = outage.failed(0, 10)
  expect(first).toBeGreaterThanOrEqual(50)
  expect(first).toBeLessThanOrEqual(100)
  expect(outage.remainingMs(10)).toBeCloseTo(first!)
  // It had begun before the first one failed.
  expect(outage.failed(5, 11)).toBeUndefined()
  expect(outage.remainingMs(10)).toBeCloseTo(first!)
  let now = 10
  for (const least of [100, 200, 400]) {
    const pauseMs = outage.failed(now + 1, now + 2)
    expect(pauseMs).toBeGreaterThanOrEqual(least)
    expect(pauseMs).toBeLessThanOrEqual(least * 2)
    now += 2
  }
  outage.succeeded()
  expect(outage.failed(now + 1, now + 2)).toBeLessThanOrEqual(100)
})
