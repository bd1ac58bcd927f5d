import { expect, test } from 'vitest'
import type { QueueReceipt } from '@txbox/core/ports'
import { GatheredReceipts } from '../../packages/queue/src/gathered-receipts.ts'

const receipt = (place: number): QueueReceipt => ({
  topic: 'q',
  place: BigInt(place),
  receipt: 'r',
  ordered: true,
})

/** Runs statements that answer when the test says so. */
function statements(): {
  readonly gathered: GatheredReceipts
  readonly places: number[][]
  readonly answer: (result: readonly boolean[] | Error) => Promise<void>
} {
  const places: number[][] = []
  const answers: PromiseWithResolvers<readonly boolean[]>[] = []
  const gathered = new GatheredReceipts((receipts) => {
    places.push(receipts.map(({ place }) => Number(place)))
    answers.push(Promise.withResolvers())
    return answers.at(-1)!.promise
  })
  return {
    gathered,
    places,
    async answer(result) {
      const last = answers.at(-1)!
      if (result instanceof Error) last.reject(result)
      else last.resolve(result)
      await last.promise.catch(() => undefined)
      await Promise.resolve()
    },
  }
}

test('receipts of one tick go into one statement, and receipts that come meanwhile into the next one', async () => {
  const { gathered, places, answer } = statements()
  const first = [1, 2].map((place) => gathered.add(receipt(place)))
  await Promise.resolve()
  expect(places).toEqual([[1, 2]])
  const second = [3, 4, 5].map((place) => gathered.add(receipt(place)))
  await Promise.resolve()
  expect(places).toEqual([[1, 2]])
  await answer([true, false])
  expect(await Promise.all(first)).toEqual([true, false])
  expect(places).toEqual([
    [1, 2],
    [3, 4, 5],
  ])
  await answer([false, true, true])
  expect(await Promise.all(second)).toEqual([false, true, true])
  const third = gathered.add(receipt(6))
  await Promise.resolve()
  await answer([true])
  expect(await third).toBe(true)
})

test('a statement that fails rejects only the calls whose receipts it contains', async () => {
  const { gathered, places, answer } = statements()
  const first = gathered.add(receipt(1))
  await Promise.resolve()
  const second = gathered.add(receipt(2))
  await answer(new Error('down'))
  await expect(first).rejects.toThrow('down')
  await answer([true])
  expect(await second).toBe(true)
  expect(places).toEqual([[1], [2]])
})

test('a statement has at most 1000 receipts', async () => {
  const { gathered, places, answer } = statements()
  const calls = Array.from({ length: 1500 }, (_, n) => gathered.add(receipt(n)))
  await Promise.resolve()
  await answer(Array.from({ length: 1000 }, () => true))
  await answer(Array.from({ length: 500 }, () => true))
  expect((await Promise.all(calls)).every((valid) => valid)).toBe(true)
  expect(places.map(({ length }) => length)).toEqual([1000, 500])
})
