import { expect, test } from 'vitest'
import { Outage } from '../../packages/consumer/src/receive/outage.ts'

test('C24 however long an outage is, the next attempt comes within 3 s', () => {
  const outage = new Outage()
  const pauses: number[] = []
  for (let now = 0; now < 600_000; now += pauses.at(-1)!) {
    // Each attempt fails at once.
    pauses.push(outage.failed(now, now).retryInMs + 1)
  }
  expect(pauses[0]).toBeLessThanOrEqual(101)
  expect(Math.max(...pauses)).toBeLessThanOrEqual(3001)
  // The pauses grow: an attempt every 0.1 s would be 6000.
  expect(pauses.length).toBeLessThan(600)

  outage.succeeded(600_001)
  expect(outage.failed(600_002, 600_002).retryInMs).toBeLessThanOrEqual(100)
})
