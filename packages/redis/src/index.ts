export { redisDedup, type RedisDedup, type RedisDedupOptions } from './redis-dedup.ts'
export type { IoredisClient, NodeRedisClient, RedisClient } from './redis-client.ts'
export {
  DedupStoreUnavailableError,
  InvalidMessageError,
  InvalidOptionError,
  TxboxError,
  isTxboxError,
} from '@txbox/core'
export type { DedupResult, DedupStore } from '@txbox/core'
