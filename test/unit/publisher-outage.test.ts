import { expect, test } from 'vitest'
import { PublisherOutage } from '../../packages/relay/src/turns/publisher-outage.ts'

const A = {}
const B = {}
const latest = (): number => 1

test('O15 concurrent calls that fail count as one failure', () => {
  const outage = new PublisherOutage()
  expect(outage.admits(0, A)).toBe(true)
  const pauseMs = outage.failed(A, 0, 10, latest)!
  for (let call = 0; call < 16; call += 1)
    expect(outage.failed(A, call % 10, 11 + call, latest)).toBeUndefined()
  expect(outage.waitMs(10)).toBeCloseTo(pauseMs)
})

test('O15 when a pause ends, one call is the probe, and the others wait for its result', () => {
  const outage = new PublisherOutage()
  const pauseMs = outage.failed(A, 0, 10, latest)!
  expect(outage.admits(10 + pauseMs - 1, A)).toBe(false)
  const probedAt = 10 + pauseMs
  expect(outage.admits(probedAt, A)).toBe(true)
  expect(outage.admits(probedAt + 1, A)).toBe(false)
  expect(outage.succeeded()).toBe(true)
  expect(outage.admits(probedAt + 2, A)).toBe(true)
  expect(outage.admits(probedAt + 2, A)).toBe(true)
})

test('O17 a probe that does not end delays the others for at most a second', () => {
  const outage = new PublisherOutage()
  const probedAt = 10 + outage.failed(A, 0, 10, latest)!
  expect(outage.admits(probedAt, A)).toBe(true)
  expect(outage.waitMs(probedAt)).toBeLessThanOrEqual(1000)
  expect(outage.admits(probedAt + 1000, A)).toBe(true)
})

test('O15 the broker is found again within half of the outage, at least 0.5 s and at most 3 s', () => {
  for (const lengthMs of [100, 300, 1000, 3000, 10_000, 60_000, 600_000]) {
    const outage = new PublisherOutage()
    // Each probe fails after 5 ms, until the broker is back.
    let now = 0
    for (; now < lengthMs; now += 5) now += outage.failed(A, now - 5, now, latest)!
    expect(now - lengthMs).toBeLessThanOrEqual(Math.min(3000, Math.max(500, lengthMs / 2)))
  }
})

test('O6 after a success the next outage begins with a short pause again', () => {
  const outage = new PublisherOutage()
  let now = 10
  const first = outage.failed(A, 0, now, latest)!
  for (let n = 0; n < 10; n += 1) {
    now += 1000
    outage.failed(A, now - 1, now, latest)
  }
  expect(outage.succeeded()).toBe(true)
  expect(outage.succeeded()).toBe(false)
  expect(outage.failed(A, now + 1, now + 2, latest)).toBe(first)
})

test('O15 after a probe that fails quickly, each other shard is the probe once before the pause ends', () => {
  const outage = new PublisherOutage()
  const pauseMs = outage.failed(A, 0, 10, latest)!
  expect(outage.admits(11, A)).toBe(false)
  expect(outage.waitMs(11)).toBeCloseTo(pauseMs - 1)
  expect([outage.isOpenToOthers, outage.admits(11, B)]).toEqual([true, true])
  // One probe at a time.
  expect(outage.admits(12, {})).toBe(false)
  // A failure of another shard's probe is no failure of its own, and does not prolong the pause.
  expect(outage.failed(B, 11, 13, latest)).toBeUndefined()
  expect([outage.admits(14, A), outage.admits(14, B), outage.admits(14, {})]).toEqual([false, false, true])
  expect(outage.failed({}, 14, 16, latest)).toBeUndefined()
  expect(outage.admits(10 + pauseMs, B)).toBe(true)
})

test('O15 a probe that fails slowly begins a pause of all shards', () => {
  const outage = new PublisherOutage()
  outage.failed(A, 0, 10, latest)
  expect(outage.admits(11, B)).toBe(true)
  const pauseMs = outage.failed(B, 11, 211, latest)!
  expect(pauseMs).toBeGreaterThan(80)
  expect([outage.admits(212, A), outage.admits(212, {})]).toEqual([false, false])
  expect(outage.waitMs(212, {})).toBeCloseTo(pauseMs - 1)
})
