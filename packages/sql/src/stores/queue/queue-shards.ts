import { SHARDS } from '@txbox/core/internal'

export const ALL_SHARDS: readonly number[] = Array.from({ length: SHARDS }, (_, shard) => shard)

/** The name of the row in `leases` that serves as the lock of a shard. */
export function shardRow(queue: string, shard: number): string {
  return `queue/${queue}/${String(shard).padStart(2, '0')}`
}

/** Returns the shards in random order, so that receivers that start at the same time start with different shards. */
export function shuffled<S>(shards: readonly S[]): readonly S[] {
  return shards
    .map((shard) => ({ shard, at: Math.random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ shard }) => shard)
}
