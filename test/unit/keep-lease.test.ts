import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { DedupLeaseStore } from '@txbox/core/ports'
import { keepLease } from '../../packages/idempotency-key/src/handle/keep-lease.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const LEASE_MS = 3000
const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)

/** Keeps a lease with these answers to its extensions. */
function keep(extend: (n: number) => Promise<boolean>) {
  const asked: number[] = []
  const causes: unknown[] = []
  const startedAt = performance.now()
  const leases: Pick<DedupLeaseStore, 'extend'> = {
    extend: async () => extend(asked.push(performance.now() - startedAt)),
  }
  const stop = keepLease({
    leases: leases as DedupLeaseStore,
    owner: { consumer: 'c', key: 'k', token: 't' },
    leaseMs: LEASE_MS,
    heldSince: startedAt,
    lost: (cause) => causes.push(cause),
  })
  return { asked, causes, stop }
}

test('H22 a lease is extended after each third of it, until it is stopped', async () => {
  const { asked, causes, stop } = keep(async () => true)
  await pass(5500)
  expect(asked).toEqual([1000, 2000, 3000, 4000, 5000])
  stop()
  await pass(60_000)
  expect([asked.length, causes]).toEqual([5, []])
})

test('H22 a lease that the database has given to another owner is lost at once, and once', async () => {
  const { asked, causes } = keep(async (n) => n < 2)
  await pass(1999)
  expect(causes).toEqual([])
  await pass(1)
  expect(causes).toEqual([undefined])
  await pass(60_000)
  expect([asked.length, causes.length]).toEqual([2, 1])
})

test('H22 while the database fails, a lease is lost when it may have passed, and one success is enough', async () => {
  const away = new Error('away')
  const { causes } = keep(async (n) => {
    if (n === 2) return true
    throw away
  })
  // The second extension counts from when it was sent.
  await pass(2000 + LEASE_MS - 1)
  expect(causes).toEqual([])
  await pass(1)
  expect(causes).toEqual([away])
})

test('H22 an extension without an answer does not keep the lease', async () => {
  const { asked, causes } = keep(() => new Promise(() => undefined))
  await pass(LEASE_MS - 1)
  expect(causes).toEqual([])
  await pass(1)
  expect([asked, causes]).toEqual([[1000], [undefined]])
})

test('a late answer to an extension changes nothing after the end', async () => {
  const answer = Promise.withResolvers<boolean>()
  const { causes, stop } = keep(() => answer.promise)
  await pass(1500)
  stop()
  answer.resolve(false)
  await pass(60_000)
  expect(causes).toEqual([])
})
