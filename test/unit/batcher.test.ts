import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createBatcher } from '@txbox/consumer'
import { isSettled, recordedBatches, turnEnd } from '../support/subjects/recorded-batches.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const numbers = (count: number): number[] => Array.from({ length: count }, (_, n) => n)

test('B1 a batch has 1 to maxSize items in the order of add, and each item once', async () => {
  const { batches, process } = recordedBatches<number>()
  const batcher = createBatcher({ process, maxSize: 10 })
  for (const n of numbers(25)) expect(batcher.add(n)).toBe(true)
  await batcher.flush()
  expect(batches()).toEqual([numbers(25).slice(0, 10), numbers(25).slice(10, 20), numbers(25).slice(20)])
})

test('B1 process may change the list of its batch, and the error still has all items of the batch', async () => {
  const batcher = createBatcher<number>({
    process: (batch) => {
      ;(batch as number[]).length = 0
      throw new Error('failed')
    },
    maxSize: 2,
  })
  const failed: unknown[] = []
  batcher.on('error', ({ batch }) => failed.push(batch))
  for (const n of numbers(3)) batcher.add(n)
  await batcher.flush()
  expect(failed).toEqual([[0, 1], [2]])
})

test('B2 one item in an idle batcher is processed in the same turn of the event loop, without a timer', async () => {
  vi.useRealTimers()
  const { batches, process } = recordedBatches<string>()
  const batcher = createBatcher({ process, maxSize: 10 })
  let isNextTurn = false
  setImmediate(() => (isNextTurn = true))
  batcher.add('a')
  expect(batches(), 'add does not call process').toEqual([])
  await turnEnd()
  expect(batches()).toEqual([['a']])
  expect(isNextTurn).toBe(false)
})

test('B2 items that are added while a batch is processed form one batch, up to maxSize', async () => {
  const { batches, calls, process } = recordedBatches<number>({ isManual: true })
  const batcher = createBatcher({ process, maxSize: 3 })
  batcher.add(0)
  await turnEnd()
  for (const n of [1, 2, 3, 4]) {
    batcher.add(n)
    await turnEnd()
  }
  expect(batches()).toEqual([[0]])
  await calls[0]?.end()
  expect(batches()).toEqual([[0], [1, 2, 3]])
  await calls[1]?.end()
  expect(batches()).toEqual([[0], [1, 2, 3], [4]])
})

test('B3 at most concurrency batches are processed at a time', async () => {
  const { calls, batches, process } = recordedBatches<number>({ isManual: true })
  const batcher = createBatcher({ process, maxSize: 1, concurrency: 2 })
  for (const n of numbers(4)) batcher.add(n)
  await turnEnd()
  expect(batches()).toEqual([[0], [1]])
  await calls[1]?.end()
  expect(batches()).toEqual([[0], [1], [2]])
  await calls[0]?.end()
  expect(batches()).toEqual([[0], [1], [2], [3]])
})

test('B3 at most concurrency batches are processed at a time, in all channels together', async () => {
  const { calls, batches, process } = recordedBatches<number>({ isManual: true })
  const batcher = createBatcher({ process, maxSize: 1, concurrency: 2, channels: 4, channelOf: (n) => n })
  for (const n of numbers(4)) batcher.add(n)
  await turnEnd()
  expect(batches()).toEqual([[0], [1]])
  await calls[0]?.end()
  expect(batches()).toEqual([[0], [1], [2]])
})

test.for<[string, () => Promise<void>]>([
  ['rejects', () => Promise.reject(new Error('failed'))],
  [
    'throws',
    () => {
      throw new Error('failed')
    },
  ],
])(
  'B4 a process that %s costs its own batch, and what waits goes on without another add',
  async ([, fail]) => {
    const { batches, process } = recordedBatches<number>()
    const batcher = createBatcher<number>({
      process: (batch, about) => (batch.includes(0) ? fail() : process(batch, about)),
      maxSize: 2,
    })
    const errors: unknown[] = []
    const flushed: unknown[] = []
    batcher.on('error', (event) => errors.push(event))
    batcher.on('flushed', ({ channel, size }) => flushed.push({ channel, size }))
    for (const n of numbers(3)) batcher.add(n)
    await turnEnd()
    expect(errors).toEqual([{ error: new Error('failed'), channel: 0, batch: [0, 1] }])
    expect(flushed).toEqual([{ channel: 0, size: 1 }])
    expect(batches()).toEqual([[2]])
    expect(await isSettled(batcher.close())).toBe(true)
  },
)

test('B4 a listener that throws disturbs nothing, and is reported', async () => {
  const { batches, process } = recordedBatches<number>()
  const batcher = createBatcher({ process, maxSize: 1 })
  const errors: unknown[] = []
  batcher.on('flushed', () => {
    throw new Error('of the listener')
  })
  batcher.on('error', (event) => {
    errors.push(event)
    throw new Error('of the other listener')
  })
  batcher.add(0)
  batcher.add(1)
  await batcher.flush()
  expect(batches()).toEqual([[0], [1]])
  await turnEnd()
  const event = { error: new Error('of the listener') }
  expect(errors).toEqual([event, event])
})

test('B4 N1 an error without a listener becomes one process warning, which shows no item', async () => {
  const warning = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
  const failing = {
    process: () => Promise.reject(new Error('the disk is full')),
    maxSize: 1,
  }
  const silent = createBatcher<string>({ ...failing, logger: false })
  silent.add('secret')
  await silent.flush()
  expect(warning).not.toHaveBeenCalled()
  const batcher = createBatcher<string>(failing)
  batcher.add('secret')
  batcher.add('secret')
  await batcher.flush()
  const calls = [...warning.mock.calls]
  warning.mockRestore()
  expect(calls).toEqual([
    [
      expect.stringContaining('A batch of 1 item has failed and is not processed again: the disk is full.'),
      expect.objectContaining({ code: 'TXBOX_UNHEARD_ERROR' }),
    ],
  ])
  expect(JSON.stringify(calls)).not.toContain('secret')
})

test('B4 N1 a logger gets a line for each failed batch, and none about the items', async () => {
  const error = vi.fn<(object: object, text: string) => void>()
  const batcher = createBatcher<string>({
    process: () => Promise.reject(new Error('the disk is full')),
    maxSize: 3,
    logger: { warn: () => undefined, error },
  })
  for (const item of ['secret', 'secret']) batcher.add(item)
  await batcher.close()
  expect(error.mock.calls).toEqual([
    [
      { event: 'error', error: 'the disk is full', channel: 0, size: 2 },
      'A batch of 2 items has failed and is not processed again: the disk is full.',
    ],
  ])
  expect(vi.getTimerCount(), 'the count of repeated errors ends with the batcher').toBe(0)
})

test('B5 a batch starts when maxSize items wait, before the linger time has passed', async () => {
  const { batches, process } = recordedBatches<number>()
  const batcher = createBatcher({ process, maxSize: 2, lingerMs: 50 })
  batcher.add(0)
  await turnEnd()
  expect(batches()).toEqual([])
  batcher.add(1)
  await turnEnd()
  expect(batches()).toEqual([[0, 1]])
})

test('B5 a batch starts when its oldest item has waited lingerMs, and not before', async () => {
  const { batches, process } = recordedBatches<number>()
  const batcher = createBatcher({ process, maxSize: 10, lingerMs: 50 })
  batcher.add(0)
  await vi.advanceTimersByTimeAsync(30)
  batcher.add(1)
  await vi.advanceTimersByTimeAsync(19)
  expect(batches()).toEqual([])
  await vi.advanceTimersByTimeAsync(1)
  expect(batches()).toEqual([[0, 1]])
})

test('B5 items that a full batch leaves behind wait for their own linger time', async () => {
  const { batches, process } = recordedBatches<number>()
  const batcher = createBatcher({ process, maxSize: 2, lingerMs: 50 })
  batcher.add(0)
  await vi.advanceTimersByTimeAsync(40)
  batcher.add(1)
  batcher.add(2)
  await vi.advanceTimersByTimeAsync(49)
  expect(batches()).toEqual([[0, 1]])
  await vi.advanceTimersByTimeAsync(1)
  expect(batches()).toEqual([[0, 1], [2]])
})

test('B5 an item that has lingered while all batches were in flight is processed when one of the batches ends', async () => {
  const { batches, calls, process } = recordedBatches<number>({ isManual: true })
  const batcher = createBatcher({ process, maxSize: 2, lingerMs: 50 })
  for (const n of numbers(3)) batcher.add(n)
  await vi.advanceTimersByTimeAsync(60)
  expect(batches()).toEqual([[0, 1]])
  await calls[0]?.end()
  expect(batches()).toEqual([[0, 1], [2]])
})

test('B5 a timer that fires early does not start a batch early', async () => {
  vi.useRealTimers()
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const clock = vi.spyOn(performance, 'now')
  try {
    clock.mockReturnValue(1000)
    const { batches, process } = recordedBatches<number>()
    const batcher = createBatcher({ process, maxSize: 2, lingerMs: 50 })
    batcher.add(0)
    clock.mockReturnValue(1049.5)
    await vi.advanceTimersByTimeAsync(50)
    expect(batches()).toEqual([])
    clock.mockReturnValue(1050)
    await vi.advanceTimersByTimeAsync(1)
    expect(batches()).toEqual([[0]])
  } finally {
    clock.mockRestore()
  }
})

test('B6 without a waiting item process is not called and no timer runs', async () => {
  const { calls, process } = recordedBatches<number>({ isManual: true })
  const batcher = createBatcher({ process, maxSize: 2, lingerMs: 50 })
  await vi.advanceTimersByTimeAsync(1000)
  await batcher.flush()
  expect([calls.length, vi.getTimerCount()]).toEqual([0, 0])
  batcher.add(0)
  expect(vi.getTimerCount()).toBe(1)
  batcher.add(1)
  expect(vi.getTimerCount(), 'a full batch needs no timer').toBe(0)
  await turnEnd()
  await calls[0]?.end()
  await vi.advanceTimersByTimeAsync(1000)
  expect([calls.length, vi.getTimerCount()]).toEqual([1, 0])
})

test('B9 all items of a batch have one channel, and process gets this channel', async () => {
  const { calls, process } = recordedBatches<number>()
  const batcher = createBatcher({ process, maxSize: 3, channels: 3, channelOf: (n) => n % 3 })
  for (const n of numbers(8)) batcher.add(n)
  await batcher.flush()
  expect(calls.map(({ channel, batch }) => [channel, batch])).toEqual([
    [0, [0, 3, 6]],
    [1, [1, 4, 7]],
    [2, [2, 5]],
  ])
  const single = recordedBatches<number>()
  const one = createBatcher({ process: single.process, maxSize: 3 })
  one.add(7)
  await one.flush()
  expect(single.calls.map(({ channel }) => channel)).toEqual([0])
})

test('B9 the channel -0 is the channel 0', async () => {
  const { calls, process } = recordedBatches<number>()
  const batcher = createBatcher({ process, maxSize: 3, channels: 2, channelOf: (n) => (n < 0 ? -0 : 0) })
  batcher.add(-1)
  batcher.add(1)
  await batcher.flush()
  expect(calls.map(({ channel, batch }) => [channel, batch])).toEqual([[0, [-1, 1]]])
})
