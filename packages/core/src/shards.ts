import { crc32 } from 'node:zlib'

/**
 * A fixed slice of the keys. A constant, because a message's shard is stored with it: another number would put the
 * messages of one key into two shards.
 */
export const SHARDS = 16

let unkeyed = 0

/** The shard of a key; without a key the shards take turns. */
export function shardOf(key: string | undefined): number {
  if (key === undefined) return (unkeyed = (unkeyed + 1) % SHARDS)
  return crc32(key) % SHARDS
}
