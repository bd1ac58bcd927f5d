import { AsyncLocalStorage } from 'node:async_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { SingleLease } from '../../packages/core/src/leases/single-lease.ts'
import {
  CLOCK,
  EVERY_MS,
  LAG,
  LEASE_MS,
  NEVER,
  ProcessUnderTest,
  STATUS,
  leases,
} from '../support/subjects/gauges-process.ts'
import { MemoryLeaseStore } from '../support/subjects/memory-lease-store.ts'
import { until } from '../support/worlds/until.ts'
import { warningsOf } from '../support/worlds/warnings.ts'

test('nothing is read, and no lease acquired, before a gauge is asked for; then the oldest messages come first', async () => {
  const one = new ProcessUnderTest()
  await sleep(3 * EVERY_MS)
  expect(one.store.calls).toEqual([])
  expect(one.reads).toEqual([])
  expect(await one.backlog()).toBeUndefined()
  await one.has(7)
  expect(one.reads.slice(0, 2)).toEqual(['lag', 'oldestOutsideOutbox'])
  expect(await one.telemetry.value('txbox.oldest_due.age')).toBe(2)
  expect(await one.telemetry.value('txbox.oldest_due.age', { queue: 'q' })).toBe(3)
  expect(await one.telemetry.value('txbox.inbox.retention.rows', { table: 'inbox' })).toBe(3)
})

test('only the holder of the lease reads and tells, and another process follows when it ends', async () => {
  const one = new ProcessUnderTest()
  await one.has(7)
  const two = new ProcessUnderTest()
  await two.backlog()
  await two.tries(4)
  expect(two.reads).toEqual([])
  expect(await two.backlog()).toBeUndefined()
  one.end()
  await one.gauges.idle
  expect(one.telemetry.size).toBe(0)
  await two.has(7)
  expect(leases.ownersOf('metrics')).toHaveLength(1)
})

test('a process tells nothing as soon as it is not sure of the lease, although it may not know who has it', async () => {
  const hang = { now: false }
  const one = new ProcessUnderTest({ lag: () => (hang.now ? NEVER : Promise.resolve(LAG)) })
  await one.has(7)
  hang.now = true
  await sleep(3 * EVERY_MS)
  expect(await one.backlog()).toBe(7)
  leases.now += LEASE_MS * 0.95
  expect(await one.backlog()).toBeUndefined()
  leases.now += LEASE_MS * 0.1
  const two = new ProcessUnderTest()
  await two.backlog()
  await two.has(7)
  expect(await one.backlog()).toBeUndefined()
})

test('a holder renews its lease, and reads at most once in each interval', async () => {
  const one = new ProcessUnderTest({}, { everyMs: 100 })
  await one.has(7)
  const begunAt = performance.now()
  const before = one.reads.length
  while (performance.now() - begunAt < 350) {
    leases.now += LEASE_MS / 30
    expect(await one.backlog()).toBe(7)
    await sleep(5)
  }
  const most = Math.ceil((performance.now() - begunAt) / 100) + 1
  expect(one.reads.slice(before).filter((name) => name === 'lag').length).toBeLessThanOrEqual(most)
  expect(one.store.calls.filter((call) => call.startsWith('renew')).length).toBeGreaterThan(0)
})

test('a part that cannot be read is absent, and is reported once; the others go on', async () => {
  const warnings = warningsOf('TXBOX_METRICS')
  const refused = new Error('permission denied for table inbox')
  const mistake = { error: undefined as Error | undefined }
  const status = async (): Promise<object> => {
    if (mistake.error !== undefined) throw mistake.error
    return STATUS
  }
  const one = new ProcessUnderTest({ status })
  await one.has(7)
  const rows = (): Promise<number | undefined> =>
    one.telemetry.value('txbox.inbox.retention.rows', { table: 'inbox' })
  await until(
    async () => (await rows()) === 3,
    () => 'claims',
  )
  mistake.error = refused
  await until(
    async () => (await rows()) === undefined,
    () => 'no claims',
  )
  for (let n = 0; n < 6; n++) {
    leases.now += EVERY_MS
    await sleep(2 * EVERY_MS)
  }
  expect(await one.backlog()).toBe(7)
  expect(warnings).toHaveLength(1)
  expect(warnings[0]).toContain(
    'dead letters and the inbox cannot be read (permission denied for table inbox',
  )
  mistake.error = undefined
  leases.now += 8 * EVERY_MS
  await until(
    async () => (await rows()) === 3,
    () => 'claims again',
  )
})

test('a process that cannot read the outbox leaves the lease to one that can', async () => {
  const warnings = warningsOf('TXBOX_METRICS')
  const refuse = async (): Promise<never> => {
    throw new Error('no privilege')
  }
  const one = new ProcessUnderTest({ lag: refuse })
  await one.backlog()
  await one.tries(2)
  const two = new ProcessUnderTest()
  await two.has(7)
  expect(await one.backlog()).toBeUndefined()
  expect(warnings).toHaveLength(1)
  expect(warnings[0]).toContain('The metrics of the outbox cannot be read (no privilege)')
})

test('a lease that cannot be acquired is reported once, and tried again', async () => {
  const warnings = warningsOf('TXBOX_METRICS')
  const one = new ProcessUnderTest()
  const acquire = one.store.acquire.bind(one.store)
  let tries = 0
  one.store.acquire = async (...request) => {
    if (++tries < 4) throw new Error('permission denied for table leases')
    return acquire(...request)
  }
  await until(
    async () => {
      leases.now += EVERY_MS
      return (await one.backlog()) === 7
    },
    () => 'a backlog',
  )
  expect(tries).toBe(4)
  expect(warnings).toEqual([expect.stringContaining("cannot get the lease 'metrics' (permission denied")])
})

test('a part that fails again and again is tried less and less often, and the others as before', async () => {
  warningsOf('TXBOX_METRICS')
  const refuse = async (): Promise<never> => {
    throw new Error('no privilege')
  }
  const one = new ProcessUnderTest({ queues: refuse })
  await one.has(7)
  for (let n = 0; n < 40; n++) {
    leases.now += EVERY_MS
    await sleep(2 * EVERY_MS)
  }
  const times = (name: string): number => one.reads.filter((read) => read === name).length
  expect(times('lag')).toBeGreaterThan(15)
  // After 1, 2, 4, 8, 8, … pauses.
  expect(times('queues')).toBeGreaterThanOrEqual(4)
  expect(times('queues')).toBeLessThanOrEqual(9)
})

test('the lease has no connection while a part is read: a small pool may have no other one', async () => {
  const open: string[] = []
  const one: ProcessUnderTest = new ProcessUnderTest({
    lag: async () => {
      open.push(one.store.calls.at(-1)!)
      return LAG
    },
  })
  await one.has(7)
  expect(new Set(open)).toEqual(new Set(['close']))
})

test('readings from before a time without the lease are not reported when the lease is there again', async () => {
  const gate = { isClosed: false }
  const one = new ProcessUnderTest({ oldestOutsideOutbox: () => (gate.isClosed ? NEVER : []) })
  const rows = (): Promise<number | undefined> =>
    one.telemetry.value('txbox.inbox.retention.rows', { table: 'inbox' })
  await until(
    async () => (await rows()) === 3,
    () => 'claims',
  )
  gate.isClosed = true
  leases.now += 2 * LEASE_MS
  await one.has(7)
  expect(await rows()).toBeUndefined()
})

test('the readings have no storage of the request that has asked first', async () => {
  const storage = new AsyncLocalStorage<string>()
  const seen = new Set<string | undefined>()
  const one = new ProcessUnderTest({
    lag: async () => {
      seen.add(storage.getStore())
      return LAG
    },
  })
  await storage.run('a request', () => one.backlog())
  await one.has(7)
  expect(seen).toEqual(new Set([undefined]))
})

test('a lease that was lost is not trusted while it cannot be acquired again', async () => {
  const store = new MemoryLeaseStore(leases)
  const settings = { name: 'work', signs: 'next-work/', owner: 'one', leaseMs: LEASE_MS, clock: CLOCK }
  const lease = new SingleLease(() => store, settings)
  expect(await lease.hold()).toBe(true)
  leases.now += LEASE_MS / 2
  leases.rows.get('work')!.owner = 'another'
  store.acquire = async () => {
    throw new Error('the database is away')
  }
  await expect(lease.hold()).rejects.toThrow('away')
  expect(lease.isTrusted).toBe(false)
})

test('a telemetry that asks no more gives the lease to another process', async () => {
  const one = new ProcessUnderTest({}, { forgottenMs: 100 })
  await one.has(7)
  leases.now += 200
  await until(
    async () => leases.ownersOf('metrics').length === 0,
    () => 'a free lease',
  )
  const { length } = one.reads
  await sleep(3 * EVERY_MS)
  expect(one.reads).toHaveLength(length)
  // It may ask again.
  await one.has(7)
})

test('parts with the same telemetry share its gauges, until the last of them ends', async () => {
  const one = new ProcessUnderTest()
  const { size } = one.telemetry
  const end = one.gauges.observe(one.telemetry)
  expect(one.telemetry.size).toBe(size)
  one.end()
  await one.has(7)
  end()
  await one.gauges.idle
  expect(one.telemetry.size).toBe(0)
  expect(leases.ownersOf('metrics')).toEqual([])
})

test('the end waits for no reading, and releases the lease', async () => {
  const one = new ProcessUnderTest({ oldestOutsideOutbox: () => NEVER })
  await one.has(7)
  expect(leases.ownersOf('metrics')).toHaveLength(1)
  one.end()
  await one.gauges.idle
  expect(leases.ownersOf('metrics')).toEqual([])
})
