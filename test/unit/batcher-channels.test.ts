import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createBatcher, InvalidOptionError, type BatcherOptions } from '@txbox/consumer'
import { runProgram } from '../support/subjects/batcher-program.ts'
import { isSettled, recordedBatches, turnEnd } from '../support/subjects/recorded-batches.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** The bytes of the heap that are in use after a garbage collection. */
function heapBytes(): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  return process.memoryUsage().heapUsed
}

const byTens = { channels: 3, channelOf: (n: number) => Math.trunc(n / 10) }

test('B10 two batches of one channel never run at a time, and a slow channel takes one place of the concurrency', async () => {
  const { calls, batches, process } = recordedBatches<number>({ isManual: true })
  const batcher = createBatcher({ process, maxSize: 1, concurrency: 2, ...byTens })
  for (const n of [0, 1, 2, 10, 11]) batcher.add(n)
  await turnEnd()
  expect(batches()).toEqual([[0], [10]])
  await calls[1]?.end()
  expect(batches()).toEqual([[0], [10], [11]])
  await calls[2]?.end()
  expect(batches(), 'a free place is not for a channel that is busy').toEqual([[0], [10], [11]])
  await calls[0]?.end()
  expect(batches()).toEqual([[0], [10], [11], [1]])
})

test('B10 channels take turns', async () => {
  const { batches, process } = recordedBatches<number>()
  const batcher = createBatcher({ process, maxSize: 1, ...byTens })
  for (const n of [0, 1, 2, 10, 11, 20]) batcher.add(n)
  await batcher.flush()
  expect(batches().flat()).toEqual([0, 10, 20, 1, 11, 2])
})

test('B10 if there is only one channel, its batches run side by side', async () => {
  const { batches, process } = recordedBatches<number>({ isManual: true })
  const batcher = createBatcher({ process, maxSize: 1, concurrency: 2, channels: 1, channelOf: () => 0 })
  for (const n of [0, 1, 2]) batcher.add(n)
  await turnEnd()
  expect(batches()).toEqual([[0], [1]])
})

test('B10 capacity, linger time and failures are the channel’s own', async () => {
  const { batches, process } = recordedBatches<number>()
  const batcher = createBatcher<number>({
    process: (batch, about) =>
      about.channel === 0 ? Promise.reject(new Error('failed')) : process(batch, about),
    maxSize: 2,
    capacity: 2,
    lingerMs: 50,
    ...byTens,
  })
  const failed: unknown[] = []
  batcher.on('error', ({ channel, batch }) => failed.push([channel, batch]))
  expect(
    [0, 1, 2].map((n) => batcher.add(n)),
    'the capacity of one channel',
  ).toEqual([true, true, false])
  const added = batcher.added(3)
  await vi.advanceTimersByTimeAsync(0)
  await added
  batcher.add(10)
  await vi.advanceTimersByTimeAsync(30)
  batcher.add(20)
  await vi.advanceTimersByTimeAsync(20)
  expect(batches(), 'each channel lingers by itself').toEqual([[10]])
  await vi.advanceTimersByTimeAsync(30)
  expect(batches()).toEqual([[10], [20]])
  expect(failed).toEqual([
    [0, [0, 1]],
    [0, [3]],
  ])
})

test('B10 a full channel keeps no item of another channel out', async () => {
  const { process } = recordedBatches<number>({ isManual: true })
  const batcher = createBatcher({ process, maxSize: 1, capacity: 1, ...byTens })
  expect([0, 1, 10, 11].map((n) => batcher.add(n))).toEqual([true, false, true, false])
  expect(await isSettled(batcher.added(2)), 'the item 0 is being processed').toBe(true)
  expect(await isSettled(batcher.added(12))).toBe(false)
})

test('B10 a channel without items takes no memory', async () => {
  vi.useRealTimers()
  const channels = 20_000
  const batcher = createBatcher({
    process: () => undefined,
    maxSize: 1,
    channels,
    channelOf: (n: number) => n,
  })
  const before = heapBytes()
  for (let n = 0; n < channels; n += 1) batcher.add(n)
  const filledBytes = heapBytes() - before
  await batcher.flush()
  const emptyBytes = heapBytes() - before
  expect(emptyBytes).toBeLessThan(filledBytes / 5)
  expect(batcher.size).toBe(0)
})

test.for([-1, 3, 0.5, Number.NaN, Infinity, '0', undefined, null])(
  'B11 the channel %s is an InvalidOptionError, and other items are not touched',
  async (channel) => {
    const { batches, process } = recordedBatches<string>()
    const channelOf = (item: string): number => (item === 'wrong' ? (channel as number) : 1)
    const batcher = createBatcher({ process, maxSize: 3, channels: 3, channelOf })
    batcher.add('a')
    expect(() => batcher.add('wrong')).toThrow(InvalidOptionError)
    await expect(batcher.added('wrong')).rejects.toThrow(InvalidOptionError)
    expect(batcher.size).toBe(0)
    batcher.add('b')
    await batcher.close()
    expect(batches()).toEqual([['a'], ['b']])
  },
)

test('B11 an error of channelOf reaches the caller of add', () => {
  const error = new Error('no channel')
  const channelOf = (): number => {
    throw error
  }
  const batcher = createBatcher({ process: () => undefined, maxSize: 1, channels: 2, channelOf })
  expect(() => batcher.add(1)).toThrow(error)
})

test('a new linger time, shorter or longer, applies to the items that wait', async () => {
  const { batches, process } = recordedBatches<number>()
  const batcher = createBatcher({ process, maxSize: 10, lingerMs: 1000 })
  batcher.add(0)
  await vi.advanceTimersByTimeAsync(30)
  batcher.lingerMs = 50
  await vi.advanceTimersByTimeAsync(19)
  expect(batches()).toEqual([])
  await vi.advanceTimersByTimeAsync(1)
  expect(batches()).toEqual([[0]])
  batcher.add(1)
  batcher.lingerMs = 100
  await vi.advanceTimersByTimeAsync(99)
  expect(batches()).toEqual([[0]])
  batcher.lingerMs = 0
  await turnEnd()
  expect(batches()).toEqual([[0], [1]])
})

test('a new maxSize, smaller or greater, applies to the items that wait', async () => {
  const { batches, process } = recordedBatches<number>()
  const batcher = createBatcher({ process, maxSize: 5, lingerMs: 1000 })
  for (const n of [0, 1, 2]) batcher.add(n)
  batcher.maxSize = 2
  await turnEnd()
  expect(batches()).toEqual([[0, 1]])
  batcher.add(3)
  batcher.maxSize = 3
  await turnEnd()
  expect([batches().length, batcher.size, vi.getTimerCount()]).toEqual([1, 2, 1])
  await batcher.flush()
  expect(batches()).toEqual([
    [0, 1],
    [2, 3],
  ])
})

test('a wrong value is refused, and the old one stays', () => {
  const batcher = createBatcher({ process: () => undefined, maxSize: 2, lingerMs: 3, capacity: 10 })
  for (const value of [0, 11, 1.5, Number.NaN, undefined, '3']) {
    expect(() => (batcher.maxSize = value as number), `maxSize ${value}`).toThrow(InvalidOptionError)
  }
  for (const value of [-1, 3_600_001, Number.NaN, undefined, '3']) {
    expect(() => (batcher.lingerMs = value as number), `lingerMs ${value}`).toThrow(InvalidOptionError)
  }
  expect([batcher.maxSize, batcher.lingerMs]).toEqual([2, 3])
})

const valid = { process: () => undefined, maxSize: 10 }
test.for<[string, object]>([
  ['process', { maxSize: 10 }],
  ['process', { ...valid, process: 1 }],
  ['maxSize', { process: valid.process }],
  ['maxSize', { ...valid, maxSize: 0 }],
  ['maxSize', { ...valid, maxSize: 100_001 }],
  ['lingerMs', { ...valid, lingerMs: -1 }],
  ['lingerMs', { ...valid, lingerMs: 3_600_001 }],
  ['capacity', { ...valid, capacity: 9 }],
  ['capacity', { ...valid, capacity: 10_000_001 }],
  ['concurrency', { ...valid, concurrency: 0 }],
  ['concurrency', { ...valid, concurrency: 1001 }],
  ['channels', { ...valid, channels: 0, channelOf: () => 0 }],
  ['channels', { ...valid, channels: 65_537, channelOf: () => 0 }],
  ['channelOf', { ...valid, channels: 2 }],
  ['channelOf', { ...valid, channels: 2, channelOf: 1 }],
  ['logger', { ...valid, logger: 1 }],
  ['linger', { ...valid, linger: 1 }],
])('the option %s of %j is refused', ([name, options]) => {
  const make = (): unknown => createBatcher(options as BatcherOptions<number>)
  expect(make).toThrow(InvalidOptionError)
  expect(make).toThrow(`'${name}'`)
})

test('B6 a program does not end while an item lingers, and ends when no item is left', async () => {
  vi.useRealTimers()
  expect(await runProgram()).toBe('processed after 200 ms or more\nclean exit 0\n')
})
