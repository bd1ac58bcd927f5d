import { OptionChecker, loggerOption } from '@txbox/core/internal'
import type { Batcher, BatcherOptions } from './batcher.ts'
import { MAX_BATCH_SIZE, lingerOption, maxSizeOption } from './batcher-settings.ts'
import { ChannelBatcher } from './channel-batcher.ts'

const DEFAULT_CAPACITY = 1000

/**
 * Creates a batcher, which collects single items into batches for `process`. There are three ways to use it:
 *
 * - as available (`lingerMs: 0`): an item that is added while the batcher is idle is processed at once; items that are added
 *   while a batch is processed form the next batch;
 * - by size or time (`lingerMs > 0`): a batch begins when `maxSize` items wait, or the oldest item has waited `lingerMs`;
 * - by channels (`channels > 1`): each channel works in one of these two ways on its own, for work that must keep the order
 *   of each key.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function createBatcher<T>(options: BatcherOptions<T>): Batcher<T> {
  const check = new OptionChecker('createBatcher', options).known(
    'process',
    'maxSize',
    'lingerMs',
    'capacity',
    'concurrency',
    'channels',
    'channelOf',
    'logger',
  )
  const process = check.callback<BatcherOptions<T>['process']>('process')
  if (process === undefined) throw check.wrong('process', 'a function')
  const maxSize = maxSizeOption(check, MAX_BATCH_SIZE)
  const channels = check.integer('channels', { min: 1, max: 65_536, default: 1 })
  const channelOf = check.callback<NonNullable<BatcherOptions<T>['channelOf']>>('channelOf')
  if (channels > 1 && channelOf === undefined) {
    throw check.wrong('channelOf', `a function that returns the channel of an item, for ${channels} channels`)
  }
  return new ChannelBatcher({
    process,
    maxSize,
    lingerMs: lingerOption(check, 0),
    capacity: check.integer('capacity', {
      min: maxSize,
      max: 10_000_000,
      default: Math.max(DEFAULT_CAPACITY, maxSize),
    }),
    concurrency: check.integer('concurrency', { min: 1, max: 1000, default: 1 }),
    channels,
    channelOf: channelOf ?? (() => 0),
    logger: loggerOption(check, options.logger),
  })
}
