import { expect, test } from 'vitest'
import { PublisherOutage } from '../../packages/relay/src/turns/publisher-outage.ts'

const latest = (): number => 1

test('O15 concurrent calls that fail count as one failure', () => {
  const outage = new PublisherOutage()
  expect(outage.admits(0)).toBe(true)
  const pauseMs = outage.failed(0, 10, latest)!
  for (let call = 0; call < 16; call += 1) expect(outage.failed(call % 10, 11 + call, latest)).toBeUndefined()
  expect(outage.waitMs(10)).toBeCloseTo(pauseMs)
})

test('O15 when a pause ends, one call is the probe, and the others wait for its result', () => {
  const outage = new PublisherOutage()
  const pauseMs = outage.failed(0, 10, latest)!
  expect(outage.admits(10 + pauseMs - 1)).toBe(false)
  const probedAt = 10 + pauseMs
  expect(outage.admits(probedAt)).toBe(true)
  expect(outage.admits(probedAt + 1)).toBe(false)
  expect(outage.succeeded()).toBe(true)
  expect(outage.admits(probedAt + 2)).toBe(true)
  expect(outage.admits(probedAt + 2)).toBe(true)
})

test('O17 a probe that does not end delays the others for at most a second', () => {
  const outage = new PublisherOutage()
  const probedAt = 10 + outage.failed(0, 10, latest)!
  expect(outage.admits(probedAt)).toBe(true)
  expect(outage.waitMs(probedAt)).toBeLessThanOrEqual(1000)
  expect(outage.admits(probedAt + 1000)).toBe(true)
})

test('O15 the broker is found again within half of the outage, at least 0.5 s and at most 3 s', () => {
  for (const lengthMs of [100, 300, 1000, 3000, 10_000, 60_000, 600_000]) {
    const outage = new PublisherOutage()
    // Each probe fails after 5 ms, until the broker is back.
    let now = 0
    for (; now < lengthMs; now += 5) now += outage.failed(now - 5, now, latest)!
    expect(now - lengthMs).toBeLessThanOrEqual(Math.min(3000, Math.max(500, lengthMs / 2)))
  }
})

test('O6 after a success the next outage begins with a short pause again', () => {
  const outage = new PublisherOutage()
  let now = 10
  const first = outage.failed(0, now, latest)!
  for (let n = 0; n < 10; n += 1) {
    now += 1000
    outage.failed(now - 1, now, latest)
  }
  expect(outage.succeeded()).toBe(true)
  expect(outage.succeeded()).toBe(false)
  expect(outage.failed(now + 1, now + 2, latest)).toBe(first)
})
