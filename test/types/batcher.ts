import {
  createBatcher,
  type BatchContext,
  type Batcher,
  type BatcherEvents,
  type BatcherOptions,
} from '@txbox/consumer'
import * as short from 'txbox/consumer'
import { assertType, type Same } from './same.ts'

interface Booking {
  readonly account: number
}
declare const booking: Booking
declare const stopping: AbortSignal
declare function save(batch: readonly Booking[]): Promise<void>

export async function batchers(): Promise<void> {
  await using batcher = createBatcher({
    process: (batch: readonly Booking[], about) => {
      assertType<Same<typeof about, BatchContext>>()
      about.signal.throwIfAborted()
      void batch.at(about.channel)?.account.toFixed()
    },
    maxSize: 10,
    lingerMs: undefined,
    capacity: undefined,
    concurrency: undefined,
    channels: 4,
    channelOf: ({ account }) => account % 4,
    logger: undefined,
  })
  assertType<Same<typeof batcher, Batcher<Booking>>>()
  const isAdded = batcher.add(booking)
  assertType<Same<typeof isAdded, boolean>>()
  await batcher.added(booking, { signal: stopping })
  await batcher.added(booking, { signal: undefined })
  batcher.maxSize = batcher.size + 1
  batcher.lingerMs = 5
  const off = batcher.on('error', (event) => {
    assertType<Same<typeof event, BatcherEvents<Booking>['error']>>()
    event.batch?.forEach(({ account }) => account.toFixed())
  })
  off()
  batcher.on('flushed', ({ channel, size, durationMs }) => channel + size + durationMs)
  await batcher.flush()
  await batcher.close({ timeoutMs: 5000 })
  // @ts-expect-error another kind of item
  batcher.add({ account: 'a' })
  // @ts-expect-error the number of items that wait cannot be set
  batcher.size = 0
  // @ts-expect-error no such event
  batcher.on('flush', () => {})
  const options: BatcherOptions<Booking> = { process: save, maxSize: 1 }
  assertType<Same<ReturnType<typeof short.createBatcher<Booking>>, Batcher<Booking>>>()
  short.createBatcher(options)
  // @ts-expect-error maxSize is required
  createBatcher({ process: save })
}
