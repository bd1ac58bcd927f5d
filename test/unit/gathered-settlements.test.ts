import { expect, test } from 'vitest'
import { DatabaseUnavailableError, LeaseLostError } from '@txbox/core'
import type { LocalRefusal, LocalRow, LocalSettlement } from '@txbox/core/ports'
import { GatheredSettlements } from '../../packages/consumer/src/local/gathered-settlements.ts'

const row = (seq: number): LocalRow => ({ in: 'waiting', seq: BigInt(seq), stamp: seq })
const refused = (seq: number): { refused: LocalRefusal } => ({ refused: { row: row(seq) } as LocalRefusal })

/** Settlements that answer when the test says so. */
function settling() {
  const over = new AbortController()
  const calls: { settled: Record<string, number[]>; answer: PromiseWithResolvers<readonly LocalRow[]> }[] = []
  const reports = { failed: [] as unknown[], taken: 0, locked: 0 }
  const numbers = ({ accepted, refused: all, behind }: LocalSettlement): Record<string, number[]> => ({
    accepted: accepted.map(({ seq }) => Number(seq)),
    refused: all.map((refusal) => Number(refusal.row.seq)),
    behind: behind.map(({ seq }) => Number(seq)),
  })
  const gathered = new GatheredSettlements({
    settle(settlement) {
      const answer = Promise.withResolvers<readonly LocalRow[]>()
      calls.push({ settled: numbers(settlement), answer })
      return answer.promise
    },
    failed: (error) => void reports.failed.push(error),
    taken: () => void reports.taken++,
    sawLocked: () => void reports.locked++,
    over: over.signal,
  })
  const call = async (n: number): Promise<(typeof calls)[number]> => {
    await expect.poll(() => calls.length, { timeout: 3000, interval: 5 }).toBeGreaterThan(n)
    return calls[n]!
  }
  return { gathered, calls, call, over, reports }
}

test('L5 settlements of one tick go into one statement, and those that come meanwhile into the next one', async () => {
  const { gathered, calls, call } = settling()
  const first = [gathered.add({ accepted: row(1) }), gathered.add(refused(2))]
  const one = await call(0)
  expect(one.settled).toEqual({ accepted: [1], refused: [2], behind: [] })
  const later = [gathered.add({ behind: [row(3), row(4)] }), gathered.add({ accepted: row(5) })]
  await Promise.resolve()
  expect(calls.length).toBe(1)
  one.answer.resolve([])
  expect((await Promise.all(first)).map(({ size }) => size)).toEqual([0, 0])
  const two = await call(1)
  expect(two.settled).toEqual({ accepted: [5], refused: [], behind: [3, 4] })
  two.answer.resolve([row(4)])
  for (const left of await Promise.all(later)) expect(left).toEqual(new Set(['w4/4']))
})

test('L5 a refusal whose row is locked is settled as soon as the row is free, and others do not wait for it', async () => {
  const { gathered, call, reports } = settling()
  const locked = gathered.add(refused(1))
  const free = gathered.add(refused(2))
  ;(await call(0)).answer.resolve([row(1)])
  await free
  expect(reports.locked).toBe(1)
  const again = await call(1)
  expect(again.settled).toEqual({ accepted: [], refused: [1], behind: [] })
  again.answer.resolve([])
  await locked
})

test('L5 without an answer, all of them are settled again; after another error one by one, and a row that fails does not keep the others', async () => {
  const { gathered, call, calls, reports } = settling()
  const all = [1, 2, 3].map((seq) => gathered.add({ accepted: row(seq) }))
  ;(await call(0)).answer.reject(new DatabaseUnavailableError('gone'))
  const again = await call(1)
  expect(again.settled['accepted']).toEqual([1, 2, 3])
  again.answer.reject(new Error('a trigger'))
  ;(await call(2)).answer.reject(new Error('a trigger'))
  expect(calls[2]!.settled['accepted']).toEqual([1])
  ;(await call(3)).answer.resolve([])
  expect(calls[3]!.settled['accepted']).toEqual([2])
  await all[1]
  ;(await call(4)).answer.resolve([])
  expect(calls[4]!.settled['accepted']).toEqual([3])
  ;(await call(5)).answer.resolve([])
  expect(calls[5]!.settled['accepted']).toEqual([1])
  await Promise.all(all)
  expect(reports.failed).toHaveLength(3)
})

test('L4 L5 when the lease is lost, nothing is settled any more, and nobody waits', async () => {
  const { gathered, call, calls, over, reports } = settling()
  const waiting = gathered.add({ accepted: row(1) })
  ;(await call(0)).answer.reject(new LeaseLostError('taken'))
  await expect.poll(() => reports.taken).toBe(1)
  over.abort()
  await waiting
  await gathered.add({ accepted: row(2) })
  expect(calls).toHaveLength(1)
  expect(reports.failed).toEqual([])
})
