import type { Removal } from '@txbox/core'
import { SHARDS } from '@txbox/core/internal'
import { ALL_SHARDS } from './queue-shards.ts'

/** The shards of queues in which handled messages have left rows. */
export interface HandledShards {
  /** The first queue after this name. */
  nextQueue(after: string): Promise<string | undefined>
  /** The first of these shards that has rows of handled messages. */
  firstOf(queue: string, shards: readonly number[]): Promise<number | undefined>
  /** @returns the number of removed rows; 0 if a receiver has locked the shard. */
  sweep(queue: string, shard: number, limit: number): Promise<number>
}

/** Sweeps the next shard after `from`. */
export async function removeHandled(
  shards: HandledShards,
  limit: number,
  from: string | undefined,
): Promise<Removal> {
  let [queue, after] = from === undefined ? ['', SHARDS] : (JSON.parse(from) as [string, number])
  for (;;) {
    const rest = ALL_SHARDS.filter((shard) => shard > after)
    const shard = rest.length === 0 ? undefined : await shards.firstOf(queue, rest)
    if (shard !== undefined) {
      const removed = await shards.sweep(queue, shard, limit)
      // There may be more in a shard of which the batch has removed as much as it may.
      const next = JSON.stringify([queue, removed === limit ? shard - 1 : shard])
      return { removed, more: true, next }
    }
    const next = await shards.nextQueue(queue)
    if (next === undefined) return { removed: 0, more: false, next: undefined }
    ;[queue, after] = [next, -1]
  }
}
