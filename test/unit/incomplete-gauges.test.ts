import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { EVERY_MS, ProcessUnderTest, STATUS, leases, refused } from '../support/subjects/gauges-process.ts'
import { until } from '../support/worlds/until.ts'
import { warningsOf } from '../support/worlds/warnings.ts'

test('a holder that cannot read some part leaves the lease to a process that can, and gets it back when that one ends', async () => {
  warningsOf('TXBOX_METRICS')
  const one = new ProcessUnderTest({ status: refused })
  await one.has(7)
  const two = new ProcessUnderTest()
  const claims = (): Promise<number | undefined> =>
    two.telemetry.value('txbox.inbox.retention.rows', { table: 'inbox' })
  await until(
    async () => {
      leases.now += EVERY_MS
      expect([await one.backlog(), await two.backlog()]).toContain(undefined)
      return (await claims()) === 3
    },
    () => 'claims',
  )
  for (let n = 0; n < 40; n++) {
    leases.now += EVERY_MS
    await sleep(2 * EVERY_MS)
    expect([await one.backlog(), await two.backlog()]).toEqual([undefined, 7])
  }
  two.end()
  await two.gauges.idle
  await one.has(7)
})

test('of processes that cannot read some part the first one keeps the lease, and the others try less and less often', async () => {
  warningsOf('TXBOX_METRICS')
  const one = new ProcessUnderTest({ status: refused })
  await one.has(7)
  const others = [1, 2].map(() => new ProcessUnderTest({ status: refused }))
  for (let n = 0; n < 100; n++) {
    leases.now += EVERY_MS
    const backlogs = await Promise.all([one, ...others].map((each) => each.backlog()))
    expect(backlogs).toEqual([7, undefined, undefined])
    await sleep(2 * EVERY_MS)
  }
  for (const { reads } of others) {
    const tries = reads.filter((name) => name === 'status').length
    // After 8, 16, 32 … pauses.
    expect(tries).toBeGreaterThanOrEqual(2)
    expect(tries).toBeLessThanOrEqual(5)
  }
})

test('a part that fails once makes no other process read anything', async () => {
  warningsOf('TXBOX_METRICS')
  let reads = 0
  const status = async (): Promise<object> => (++reads === 2 ? refused() : STATUS)
  const one = new ProcessUnderTest({ status })
  await one.has(7)
  const two = new ProcessUnderTest()
  for (let n = 0; n < 20; n++) {
    leases.now += EVERY_MS
    await sleep(2 * EVERY_MS)
    await two.backlog()
  }
  expect(reads).toBeGreaterThan(3)
  expect(two.reads).toEqual([])
  expect(await one.backlog()).toBe(7)
})

test('the signs for other processes end with the process that shows them', async () => {
  warningsOf('TXBOX_METRICS')
  const one = new ProcessUnderTest({ status: refused })
  await one.has(7)
  await until(
    async () => {
      leases.now += EVERY_MS
      await one.backlog()
      return leases.ownersOf('next-metrics/').length === 1
    },
    () => 'a sign',
  )
  one.end()
  await one.gauges.idle
  expect(leases.ownersOf('')).toEqual([])
})
