import { expect, test } from 'vitest'
import type { Lease, LeaseStore } from '@txbox/core/ports'
import type { HeldShard } from '../../packages/core/src/leases/held-shard.ts'
import { LeaseKeeper } from '../../packages/core/src/leases/lease-keeper.ts'
import { RELAY_LEASES } from '../../packages/core/src/leases/lease-names.ts'
import { trustFrom, type Clock } from '../../packages/core/src/leases/lease-trust.ts'

const LEASE_MS = 1000

class HandClock implements Clock {
  monotonic = 0
  wall = 1e12
  monotonicMs(): number {
    return this.monotonic
  }
  wallMs(): number {
    return this.wall
  }
  pass(ms: number): void {
    this.monotonic += ms
    this.wall += ms
  }
}

test('O7 trust ends before the lease does, by whichever clock reaches the end first', () => {
  const clock = new HandClock()
  const trust = trustFrom(clock, LEASE_MS)
  clock.pass(899)
  expect(trust.holds()).toBe(true)
  clock.pass(1)
  expect(trust.holds()).toBe(false)
  // The monotonic clock stands still while a machine sleeps.
  const slept = trustFrom(clock, LEASE_MS)
  clock.wall += 900
  expect(slept.holds()).toBe(false)
  // The wall clock is set back.
  const setBack = trustFrom(clock, LEASE_MS)
  clock.wall -= 3_600_000
  clock.monotonic += 900
  expect(setBack.holds()).toBe(false)
})

test('O7 trust is counted from the request for the lease or its renewal, and not from the answer', async () => {
  const clock = new HandClock()
  // Here the answer takes time; test/contract has tests with real leases.
  const slow = async <R>(answer: R): Promise<R> => {
    clock.pass(600)
    return answer
  }
  const lease = (name: string): Lease => ({ name, owner: 'me', term: 1n, crashes: 0, inFlight: undefined })
  let isFree = true
  const store: LeaseStore = {
    acquire: (names) => (isFree ? slow(names.slice(0, 1).map(lease)) : Promise.resolve([])),
    renew: (leases) => slow(leases),
    release: async () => undefined,
    holders: async () => [],
    sweep: async () => undefined,
    close: async () => undefined,
  }
  const held: HeldShard[] = []
  const keeper = new LeaseKeeper(store, {
    owner: 'me',
    names: RELAY_LEASES,
    clock,
    failed: () => undefined,
  })
  keeper.add({
    path: '',
    leaseMs: LEASE_MS,
    events: { acquired: (one) => held.push(one), lost: () => undefined },
  })
  // The relay makes itself known, and takes a shard, at 600; the answer arrives at 1200.
  await keeper.round()
  clock.pass(299)
  expect(held[0]!.isTrusted).toBe(true)
  clock.pass(1)
  expect(held[0]!.isTrusted).toBe(false)

  held.length = 0
  await keeper.round()
  const [renewed] = held
  // The next round requests the renewal at once, and gets the answer 600 later.
  isFree = false
  await keeper.round()
  clock.pass(299)
  expect(renewed!.isTrusted).toBe(true)
  clock.pass(1)
  expect(renewed!.isTrusted).toBe(false)
})
