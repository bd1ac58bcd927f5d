/**
 * The number of shards; each shard is a fixed part of the keys. The number must never change, because messages are
 * stored with their shard: another number would put messages of one key into two shards.
 */
export const SHARDS = 16
