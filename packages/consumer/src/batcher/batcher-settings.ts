import { hours, type Logger } from '@txbox/core'
import type { OptionChecker } from '@txbox/core/internal'
import type { BatcherOptions } from './batcher.ts'

export const MAX_BATCH_SIZE = 100_000

const LINGER = { min: 0, max: hours(1) }

/** The options of a batcher, checked and complete. */
export interface BatcherSettings<T> {
  readonly process: BatcherOptions<T>['process']
  readonly maxSize: number
  readonly lingerMs: number
  readonly capacity: number
  readonly concurrency: number
  readonly channels: number
  readonly channelOf: (item: T) => number
  readonly logger: Logger | false | undefined
}

/** Without `byDefault`, the option is required. */
export function lingerOption(check: OptionChecker, byDefault = Number.NaN): number {
  return check.milliseconds('lingerMs', { ...LINGER, default: byDefault })
}

/** The option is required. */
export function maxSizeOption(check: OptionChecker, max: number): number {
  return check.integer('maxSize', { min: 1, max, default: Number.NaN })
}
