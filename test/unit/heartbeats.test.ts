import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Heartbeats } from '../../packages/consumer/src/receive/heartbeats.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const LEASE_MS = 6000
const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)

class Lease {
  readonly extendedAt: number[] = []
  readonly errors: unknown[] = []
  extension: Promise<void> = Promise.resolve()

  async extend(): Promise<void> {
    this.extendedAt.push(performance.now())
    await this.extension
  }

  report(error: unknown): void {
    this.errors.push(error)
  }
}

test('C21 whenever a lease begins, it is extended before a third of it has passed, and not before a sixth; one timer serves all', async () => {
  const heartbeats = new Heartbeats(LEASE_MS)
  const leases: { readonly beganAt: number; readonly lease: Lease }[] = []
  for (let n = 0; n < 20; n += 1) {
    const lease = new Lease()
    leases.push({ beganAt: performance.now(), lease })
    heartbeats.start(lease)
    await pass(173)
  }
  expect(vi.getTimerCount()).toBe(1)
  await pass(LEASE_MS * 3)
  for (const { beganAt, lease } of leases) {
    const times = [beganAt, ...lease.extendedAt]
    const pauses = times.slice(1).map((at, n) => at - times[n]!)
    expect(pauses.length).toBeGreaterThan(8)
    expect(Math.max(...pauses)).toBeLessThanOrEqual(LEASE_MS / 3)
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(LEASE_MS / 6)
  }
})

test('C21 a lease that has ended is not extended, and without leases no timer runs', async () => {
  const heartbeats = new Heartbeats(LEASE_MS)
  const [first, second] = [new Lease(), new Lease()]
  const [one, other] = [heartbeats.start(first), heartbeats.start(second)]
  one.stop()
  await pass(LEASE_MS)
  expect([first.extendedAt.length, second.extendedAt.length]).toEqual([0, 3])
  other.stop()
  other.stop()
  expect(vi.getTimerCount()).toBe(0)
  heartbeats.start(first)
  await pass(LEASE_MS)
  expect([first.extendedAt.length, second.extendedAt.length]).toEqual([3, 3])
})

test('C21 a lease is not extended while it is paused, or while an extension is in flight; a failure is reported, and the next extension follows', async () => {
  const heartbeats = new Heartbeats(LEASE_MS)
  const lease = new Lease()
  const heartbeat = heartbeats.start(lease)
  heartbeat.pause(true)
  await pass(LEASE_MS)
  expect(lease.extendedAt).toEqual([])
  heartbeat.pause(false)
  const extension = Promise.withResolvers<void>()
  lease.extension = extension.promise
  await pass(LEASE_MS)
  expect(lease.extendedAt.length).toBe(1)
  const error = new Error('down')
  extension.reject(error)
  await pass(LEASE_MS)
  expect(lease.extendedAt.length).toBeGreaterThan(1)
  expect(new Set(lease.errors)).toEqual(new Set([error]))
})
