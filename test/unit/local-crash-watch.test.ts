import { expect, test } from 'vitest'
import type { Lease, LocalRow, LocalStore } from '@txbox/core/ports'
import { LocalCrashWatch } from '../../packages/consumer/src/local/local-crash-watch.ts'
import type { LocalHeldShard } from '../../packages/consumer/src/local/local-membership.ts'

const row = (seq: number, table: LocalRow['in'] = 'waiting'): LocalRow => ({
  in: table,
  seq: BigInt(seq),
  stamp: seq * 10,
})

/** The lease of a shard, of which so many owners have died. */
function watching(crashes: number, inFlight?: string) {
  const calls: unknown[] = []
  const lease = { name: 'local/billing/03', owner: 'me', term: 7n, crashes, inFlight } as Lease
  let locked: readonly LocalRow[] = []
  const store = {
    note: async (_: Lease, noted: string | undefined) => (calls.push(['note', noted]), true),
    survived: async () => void calls.push(['survived']),
    suspect: async (_: Lease, __: unknown, rows: readonly LocalRow[]) => {
      calls.push(['suspect', rows])
      return locked
    },
  } as unknown as LocalStore
  const held = { consumer: 'billing', shard: 3, lease, crashes } as LocalHeldShard
  const watch = new LocalCrashWatch(
    held,
    store,
    (error) => void calls.push(['reported', (error as Error).message]),
  )
  return { watch, calls, lock: (rows: readonly LocalRow[]) => (locked = rows) }
}

test('L5 O9 without a crash, nothing is noted and nothing is waited for', async () => {
  const { watch, calls } = watching(0)
  expect([watch.isActive, watch.hasBegun, watch.hasSuspects]).toEqual([false, true, false])
  await watch.begin()
  await watch.end(() => true)
  expect(calls).toEqual([])
})

test('L5 O9 after one death, messages in flight are noted until those that the dead owner may have had are settled', async () => {
  const { watch, calls } = watching(1)
  expect([watch.isActive, watch.hasBegun]).toEqual([true, false])
  await watch.begin()
  expect(watch.hasBegun).toBe(true)
  await watch.note([row(5), row(2, 'parked')])
  expect(calls).toEqual([['note', '{"waiting":[["5","50"]],"parked":[["2","20"]]}']])
  watch.sawWaiting([row(5), row(9)])
  watch.triedParked()
  await watch.end((seq) => seq < 9n)
  expect(watch.isActive).toBe(true)
  await watch.end((seq) => seq <= 9n)
  expect(watch.isActive).toBe(false)
  expect(calls.at(-1)).toEqual(['survived'])
})

test('L5 O9 after two deaths the noted messages become suspects, and those that are locked as soon as they are free', async () => {
  const note = '{"waiting":[["5","50"],["6","60"]],"parked":[["2","20"]]}'
  const { watch, calls, lock } = watching(2, note)
  lock([row(6)])
  await watch.begin()
  expect(calls).toEqual([['suspect', [row(5), row(6), row(2, 'parked')]]])
  expect([watch.isNoted(row(5)), watch.isNoted(row(6)), watch.hasNoted]).toEqual([false, true, true])
  // The next owner must find it in the note, too.
  await watch.note([row(8)])
  expect(calls.at(-1)).toEqual(['note', '{"waiting":[["6","60"],["8","80"]],"parked":[]}'])
  lock([])
  await watch.suspectLeft()
  expect(calls.at(-1)).toEqual(['suspect', [row(6)]])
  expect(watch.hasNoted).toBe(false)
  expect(watch.hasSuspects).toBe(true)
})

test('L5 O9 a note that was written by hand is reported, marks nothing, and is removed', async () => {
  for (const note of ['no note', '[]', '{"waiting":[["x","y"]]}', '{"waiting":7}']) {
    const { watch, calls } = watching(2, note)
    await watch.begin()
    const isReadable = note === '[]'
    const reported = ['reported', expect.stringContaining("in the lease 'local/billing/03' cannot be read")]
    expect(calls).toEqual([...(isReadable ? [] : [reported]), ['note', undefined]])
  }
})
