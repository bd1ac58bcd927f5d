import { expect, test } from 'vitest'
import type { LocalMessage } from '@txbox/core/ports'
import { PreparedRows } from '../../packages/consumer/src/local/prepared-rows.ts'
import { ShardWindow } from '../../packages/consumer/src/local/shard-window.ts'
import { SuspectLane } from '../../packages/consumer/src/local/suspect-lane.ts'

const LIMITS = { messages: 500, bytes: 1_000_000 }
const SUSPECT = {
  ...{ seq: 1n, stamp: 1, in: 'parked', id: 'm1', key: 'a', ordered: true, type: 'made', topic: undefined },
  ...{ attempts: 0, errors: undefined, blocked: false, isSuspect: true, undecodable: undefined, shard: 3 },
  ...{ payload: new Uint8Array(2), headers: {}, contentType: 'application/json', createdAt: new Date(0) },
} as unknown as LocalMessage

/** The suspects of one shard, whose statements are answered when the test says so. */
function suspectsOf(suspectLane: SuspectLane) {
  const over = new AbortController()
  const read = Promise.withResolvers<LocalMessage | undefined>()
  const count = Promise.withResolvers<void>()
  const calls: string[] = []
  const nothing = (): undefined => undefined
  const rows = new PreparedRows({
    ...{
      at: { consumer: 'billing', shard: 3 },
      limits: LIMITS,
      window: new ShardWindow(LIMITS),
      suspectLane,
    },
    ...{ attempts: 10, handles: () => true, over: over.signal },
    store: { readSuspect: () => (calls.push('read'), read.promise) } as never,
    watch: { sawSuspect: nothing } as never,
    count: () => (calls.push('count'), count.promise),
    ...{
      settle: async () => undefined,
      parkUnhandled: async () => undefined,
      skip: nothing,
      gaveUp: nothing,
    },
    ...{ failed: nothing, news: nothing, wake: nothing },
  })
  const lose = (): void => {
    over.abort()
    rows.end()
  }
  return { rows, read, count, calls, lose }
}

/** Whether another shard of the consumer may try a suspect. */
function isFree(lane: SuspectLane): boolean {
  return lane.enter({}, () => undefined)
}

test('O9 a shard whose lease is lost before it tries a suspect keeps no other shard from trying one', async () => {
  const lane = new SuspectLane()
  const { rows, calls, lose } = suspectsOf(lane)
  lose()
  await rows.trySuspect()
  expect(calls).toEqual([])
  expect(isFree(lane)).toBe(true)
})

for (const at of ['read', 'count'] as const) {
  test(`O9 a shard whose lease is lost while it prepares a suspect (${at}) keeps no other shard from trying one`, async () => {
    const lane = new SuspectLane()
    const { rows, read, count, calls, lose } = suspectsOf(lane)
    const trying = rows.trySuspect()
    expect(isFree(lane)).toBe(false)
    if (at === 'count') {
      read.resolve(SUSPECT)
      await expect.poll(() => calls).toEqual(['read', 'count'])
    }
    lose()
    read.resolve(SUSPECT)
    count.resolve()
    await trying
    expect(isFree(lane)).toBe(true)
  })
}
