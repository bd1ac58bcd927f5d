import { SHARDS } from '@txbox/core/internal'

/** The numbers of all shards of a queue. */
export const ALL_SHARDS: readonly number[] = Array.from({ length: SHARDS }, (_, shard) => shard)

/** Returns the shards in random order, so that receivers that start at the same time start with different shards. */
export function shuffled<S>(shards: readonly S[]): readonly S[] {
  return shards
    .map((shard) => ({ shard, at: Math.random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ shard }) => shard)
}
