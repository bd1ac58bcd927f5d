import { crc32 } from 'node:zlib'

/**
 * The number of shards; each shard is a fixed part of the keys. The number must never change, because messages are
 * stored with their shard: another number would put messages of one key into two shards.
 */
export const SHARDS = 16

let lastUnkeyedShard = 0

/** Returns the shard of a key. Messages without a key are distributed over all shards in turn. */
export function shardOf(key: string | undefined): number {
  if (key === undefined) return (lastUnkeyedShard = (lastUnkeyedShard + 1) % SHARDS)
  return crc32(key) % SHARDS
}
