import { expect, onTestFinished, test, vi } from 'vitest'
import { DatabaseUnavailableError, LeaseLostError } from '@txbox/core'
import type { Lease, LocalRow, LocalSettlement, LocalStore } from '@txbox/core/ports'
import { SharedSettlements } from '../../packages/consumer/src/local/shared-settlements.ts'

const row = (seq: number, where: LocalRow['in'] = 'waiting'): LocalRow => ({
  in: where,
  seq: BigInt(seq),
  stamp: seq,
})
const accepted = (...rows: readonly LocalRow[]): LocalSettlement => ({
  accepted: rows,
  refused: [],
  behind: [],
})

/** A store whose settlements answer when the test says so. */
function settling({ together = true } = {}) {
  const shared: { shards: number[]; answer: PromiseWithResolvers<readonly (readonly LocalRow[])[]> }[] = []
  const alone: { shard: number; answer: PromiseWithResolvers<readonly LocalRow[]> }[] = []
  const store = {
    acceptTogether: together
      ? (all: Parameters<NonNullable<LocalStore['acceptTogether']>>[0]) => {
          const answer = Promise.withResolvers<readonly (readonly LocalRow[])[]>()
          shared.push({ shards: all.map(({ at }) => at.shard), answer })
          return answer.promise
        }
      : undefined,
    settle(_lease: Lease, { shard }: { readonly shard: number }) {
      const answer = Promise.withResolvers<readonly LocalRow[]>()
      alone.push({ shard, answer })
      return answer.promise
    },
  } as unknown as LocalStore
  const settlements = new SharedSettlements(store)
  const settle = (shard: number, settlement = accepted(row(shard))): Promise<readonly LocalRow[]> => {
    const result = settlements.settle({ name: String(shard) } as Lease, { consumer: 'c', shard }, settlement)
    result.catch(() => undefined)
    return result
  }
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
  return { shared, alone, settle, turn }
}

test('L8 shards that settle in one tick, or while two transactions are in flight, share a transaction', async () => {
  const { shared, settle, turn } = settling()
  const first = [settle(1), settle(2)]
  await turn()
  const second = [settle(3), settle(4)]
  await turn()
  const third = [settle(5), settle(6), settle(7)]
  await turn()
  expect(shared.map(({ shards }) => shards)).toEqual([
    [1, 2],
    [3, 4],
  ])
  shared[1]!.answer.resolve([[], [row(4)]])
  expect(await Promise.all(second)).toEqual([[], [row(4)]])
  await turn()
  expect(shared[2]!.shards).toEqual([5, 6, 7])
  shared[0]!.answer.resolve([[], []])
  shared[2]!.answer.resolve([[], [], []])
  await Promise.all([...first, ...third])
})

test('L8 a shard that settles alone uses its own statement, and so do refusals and parked rows', async () => {
  const { shared, alone, settle, turn } = settling()
  const one = settle(1)
  await turn()
  const refused = [{ row: row(2) }] as unknown as LocalSettlement['refused']
  const others = [
    settle(2, { accepted: [], refused, behind: [] }),
    settle(3, { accepted: [row(3)], refused: [], behind: [row(4)] }),
    settle(4, accepted(row(4, 'parked'))),
  ]
  await turn()
  expect(shared).toEqual([])
  expect(alone.map(({ shard }) => shard)).toEqual([1, 2, 3, 4])
  for (const { answer } of alone) answer.resolve([])
  await Promise.all([one, ...others])
})

test('L8 where the database cannot settle shards together, each is settled by itself', async () => {
  const { alone, settle } = settling({ together: false })
  void settle(1)
  void settle(2)
  expect(alone.map(({ shard }) => shard)).toEqual([1, 2])
})

test('L4 if a shared transaction fails, each shard is settled by itself and has its own result', async () => {
  const { shared, alone, settle, turn } = settling()
  const all = [settle(1), settle(2), settle(3)]
  await turn()
  shared[0]!.answer.reject(new LeaseLostError('lost'))
  await turn()
  expect(alone.map(({ shard }) => shard)).toEqual([1, 2, 3])
  const lost = new LeaseLostError('lost')
  alone[0]!.answer.resolve([])
  alone[1]!.answer.reject(lost)
  alone[2]!.answer.resolve([row(3)])
  expect(await Promise.allSettled(all)).toEqual([
    { status: 'fulfilled', value: [] },
    { status: 'rejected', reason: lost },
    { status: 'fulfilled', value: [row(3)] },
  ])
  // The next ones are shared again, without the shard that has failed.
  for (const shard of [1, 2, 3]) void settle(shard)
  await turn()
  expect(shared[1]!.shards).toEqual([1, 3])
  expect(alone.map(({ shard }) => shard)).toEqual([1, 2, 3, 2])
})

test('L5 if the database is away, or a shard hangs, each shard learns of it, and is tried by itself for some time', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const { shared, alone, settle, turn } = settling()
  const all = [settle(1), settle(2)]
  await turn()
  const gone = new DatabaseUnavailableError('gone')
  shared[0]!.answer.reject(gone)
  for (const each of all) await expect(each).rejects.toBe(gone)
  expect(alone).toEqual([])
  void settle(1)
  void settle(2)
  expect(alone.map(({ shard }) => shard)).toEqual([1, 2])
  // A shard that fails again waits up to 5 s itself, and must not be shared after that.
  vi.advanceTimersByTime(5001)
  void settle(1)
  await turn()
  expect(alone.map(({ shard }) => shard)).toEqual([1, 2, 1])
  vi.advanceTimersByTime(10_000)
  void settle(1)
  void settle(2)
  await turn()
  expect(shared[1]!.shards).toEqual([1, 2])
})

test('L8 a transaction has a thousand rows at most, unless one shard has more', async () => {
  const { shared, alone, settle, turn } = settling()
  const many = accepted(...Array.from({ length: 600 }, (_, n) => row(n)))
  void settle(1, many)
  void settle(2, accepted(row(1000)))
  void settle(3, many)
  await turn()
  expect(shared.map(({ shards }) => shards)).toEqual([[1, 2]])
  shared[0]!.answer.resolve([[], []])
  await turn()
  expect(alone.map(({ shard }) => shard)).toEqual([3])
})
