import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { BatcherClosedError, createBatcher, InvalidOptionError, isTxboxError } from '@txbox/consumer'
import { isSettled, recordedBatches, turnEnd } from '../support/subjects/recorded-batches.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A batcher with one batch in flight and as many waiting items as it takes. */
async function fullBatcher() {
  const recorded = recordedBatches<string>({ isManual: true })
  const batcher = createBatcher({ process: recorded.process, maxSize: 2, capacity: 3 })
  batcher.add('in flight')
  await turnEnd()
  for (const item of ['a', 'b', 'c']) expect(batcher.add(item)).toBe(true)
  return { batcher, ...recorded }
}

test('B7 exactly capacity items wait, besides items that are being processed; the next add returns false', async () => {
  const { batcher, calls, batches } = await fullBatcher()
  expect(batcher.size).toBe(3)
  expect(batcher.add('d')).toBe(false)
  await calls[0]?.end()
  expect(batcher.size).toBe(1)
  expect(['d', 'e', 'f'].map((item) => batcher.add(item))).toEqual([true, true, false])
  await calls[1]?.end()
  await calls[2]?.end()
  expect(batches()).toEqual([['in flight'], ['a', 'b'], ['c', 'd'], ['e']])
})

test('B7 capacity is 1000, or maxSize if that is greater', async () => {
  for (const [maxSize, capacity] of [
    [1, 1000],
    [2000, 2000],
  ] as const) {
    const { process } = recordedBatches<number>({ isManual: true })
    const batcher = createBatcher({ process, maxSize, lingerMs: 1000 })
    let added = 0
    while (batcher.add(0)) added += 1
    expect(added).toBe(capacity)
  }
})

test('B7 calls of added get room in the order in which they were made, and before any call of add', async () => {
  const { batcher, calls, batches } = await fullBatcher()
  const waiting = ['d', 'e', 'f', 'g'].map((item) => batcher.added(item))
  expect(batcher.size).toBe(3)
  await calls[0]?.end()
  expect(await Promise.all(waiting.map(isSettled))).toEqual([true, true, false, false])
  expect(batcher.add('h')).toBe(false)
  await calls[1]?.end()
  expect(await Promise.all(waiting.map(isSettled))).toEqual([true, true, true, true])
  await calls[2]?.end()
  await calls[3]?.end()
  expect(batches()).toEqual([['in flight'], ['a', 'b'], ['c', 'd'], ['e', 'f'], ['g']])
})

test('B7 if there is room, added does what add does', async () => {
  const { batches, process } = recordedBatches<number>()
  const batcher = createBatcher({ process, maxSize: 2 })
  await batcher.added(1)
  await batcher.flush()
  expect(batches()).toEqual([[1]])
})

test('B7 an aborted signal ends the waiting for room, and the item is not added', async () => {
  const { batcher, calls, batches } = await fullBatcher()
  const stopping = new AbortController()
  const given = batcher.added('given up', { signal: stopping.signal })
  const later = batcher.added('later')
  const reason = new Error('stopping')
  stopping.abort(reason)
  await expect(given).rejects.toBe(reason)
  await expect(batcher.added('aborted before', { signal: stopping.signal })).rejects.toBe(reason)
  for (const n of [0, 1, 2]) await calls[n]?.end()
  await later
  expect(batches().flat()).toEqual(['in flight', 'a', 'b', 'c', 'later'])
  await expect(batcher.added('aborted before, with room', { signal: stopping.signal })).rejects.toBe(reason)
  expect(batcher.size).toBe(0)
})

test('B7 an abort in the turn in which the item gets its room comes too late', async () => {
  const { batcher, calls, batches } = await fullBatcher()
  const stopping = new AbortController()
  const first = batcher.added('d', { signal: stopping.signal })
  const second = batcher.added('e')
  const stop = stopping.abort.bind(stopping)
  const begun = batcher.on('flushed', () => queueMicrotask(() => queueMicrotask(stop)))
  await calls[0]?.end()
  begun()
  await Promise.all([first, second])
  for (const n of [1, 2]) await calls[n]?.end()
  expect(batches().flat()).toEqual(['in flight', 'a', 'b', 'c', 'd', 'e'])
})

test('B7 added leaves no listener behind on its signal', async () => {
  const { batcher, calls } = await fullBatcher()
  const { signal } = new AbortController()
  const add = vi.spyOn(signal, 'addEventListener')
  const remove = vi.spyOn(signal, 'removeEventListener')
  const added = batcher.added('d', { signal })
  expect(add).toHaveBeenCalledTimes(1)
  await calls[0]?.end()
  await added
  expect(remove.mock.calls.map(([event, listener]) => [event, listener])).toEqual(
    add.mock.calls.map(([event, listener]) => [event, listener]),
  )
})

test('B8 after close, add returns false, and the waiting items are processed without lingering', async () => {
  const { batches, calls, process } = recordedBatches<number>({ isManual: true })
  const batcher = createBatcher({ process, maxSize: 2, lingerMs: 3_600_000 })
  for (const n of [0, 1, 2]) batcher.add(n)
  const closed = batcher.close()
  expect(batcher.add(3)).toBe(false)
  await turnEnd()
  await calls[0]?.end()
  expect(batches()).toEqual([[0, 1], [2]])
  expect(await isSettled(closed)).toBe(false)
  await calls[1]?.end()
  expect(await isSettled(closed)).toBe(true)
  expect([batcher.add(4), batcher.size, vi.getTimerCount()]).toEqual([false, 0, 0])
})

test('B8 close does not wait for the linger time of an item that waits alone', async () => {
  const { batches, process } = recordedBatches<number>()
  const batcher = createBatcher({ process, maxSize: 2, lingerMs: 3_600_000 })
  batcher.add(0)
  expect(await isSettled(batcher.close())).toBe(true)
  expect(batches()).toEqual([[0]])
})

test('B8 a second call of close resolves when the first call does', async () => {
  const { calls, process } = recordedBatches<number>({ isManual: true })
  const batcher = createBatcher({ process, maxSize: 2 })
  batcher.add(0)
  const closes = [batcher.close(), batcher.close(), batcher[Symbol.asyncDispose]()]
  expect(await Promise.all(closes.map(isSettled))).toEqual([false, false, false])
  await calls[0]?.end()
  expect(await Promise.all(closes.map(isSettled))).toEqual([true, true, true])
  expect(await isSettled(batcher.close())).toBe(true)
})

test('B8 close refuses the calls of added that wait for room, and later calls', async () => {
  const { batcher, calls, batches } = await fullBatcher()
  const refused = [batcher.added('d'), batcher.added('e')]
  const closed = batcher.close()
  refused.push(batcher.added('f'))
  for (const outcome of await Promise.allSettled(refused)) {
    const { reason } = outcome as PromiseRejectedResult
    expect(reason).toBeInstanceOf(BatcherClosedError)
    expect(isTxboxError(reason) && reason.code).toBe('TXBOX_BATCHER_CLOSED')
  }
  for (const n of [0, 1, 2]) await calls[n]?.end()
  await closed
  expect(batches().flat()).toEqual(['in flight', 'a', 'b', 'c'])
})

test('B8 after the time limit of close the signals are aborted, and the waiting items are still processed', async () => {
  const { batcher, calls, batches } = await fullBatcher()
  const closed = batcher.close({ timeoutMs: 5000 })
  void batcher.close({ timeoutMs: 9000 })
  await vi.advanceTimersByTimeAsync(4999)
  expect(calls[0]?.signal.aborted).toBe(false)
  await vi.advanceTimersByTimeAsync(1)
  expect(calls[0]?.signal.reason).toMatchObject({
    name: 'AbortError',
    message: expect.stringContaining('close'),
  })
  expect(await isSettled(closed)).toBe(false)
  await calls[0]?.end()
  expect(calls[1]?.signal.aborted).toBe(true)
  await calls[1]?.end()
  await calls[2]?.end()
  await closed
  expect(batches().flat()).toEqual(['in flight', 'a', 'b', 'c'])
  expect(vi.getTimerCount()).toBe(0)
})

test('B8 without a time limit close aborts nothing', async () => {
  const { batcher, calls } = await fullBatcher()
  const closed = batcher.close()
  await vi.advanceTimersByTimeAsync(86_400_000)
  for (const n of [0, 1, 2]) await calls[n]?.end()
  await closed
  expect(calls.map(({ signal }) => signal.aborted)).toEqual([false, false, false])
})

test('B8 a wrong time limit is refused, and the batcher stays open', async () => {
  const { batcher } = await fullBatcher()
  for (const timeoutMs of [-1, Number.NaN, 3_600_001, '5' as unknown as number]) {
    await expect(batcher.close({ timeoutMs })).rejects.toThrow(InvalidOptionError)
  }
  expect(await isSettled(batcher.added('d'))).toBe(false)
})

test('flush does not linger, and resolves when all items that were added before it have been processed', async () => {
  const { batches, calls, process } = recordedBatches<number>({ isManual: true })
  const batcher = createBatcher({ process, maxSize: 2, lingerMs: 1000, concurrency: 2 })
  batcher.on('error', () => undefined)
  batcher.add(0)
  const first = batcher.flush()
  await turnEnd()
  batcher.add(1)
  const second = batcher.flush()
  await turnEnd()
  batcher.add(2)
  await turnEnd()
  expect(batches()).toEqual([[0], [1]])
  await calls[1]?.end()
  expect([await isSettled(first), await isSettled(second)], 'the first batch is in flight').toEqual([
    false,
    false,
  ])
  await calls[0]?.fail(new Error('a failed batch has been processed'))
  expect([await isSettled(first), await isSettled(second)]).toEqual([true, true])
  expect(batcher.size, 'an item that was added later lingers').toBe(1)
})

test('an item that process adds goes with a later batch', async () => {
  const seen: number[][] = []
  const batcher = createBatcher<number>({
    process: (batch) => {
      seen.push([...batch])
      if (batch[0] === 0) expect(batcher.add(1)).toBe(true)
    },
    maxSize: 10,
  })
  batcher.on('error', ({ error }) => expect.unreachable(String(error)))
  batcher.add(0)
  await turnEnd()
  expect(seen).toEqual([[0], [1]])
})
