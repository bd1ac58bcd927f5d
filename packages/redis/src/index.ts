export { redisDedup, type RedisDedup, type RedisDedupOptions } from './dedup/redis-dedup.ts'
export type { IoredisClient, NodeRedisClient, RedisClient } from './dedup/script-commands.ts'
export { redisPublisher } from './publish/redis-publisher.ts'
export type { RedisPublisherOptions } from './publish/redis-options.ts'
export { redisSource, type RedisSourceOptions } from './receive/redis-source.ts'
export { fromRedis, type RedisStreamEntry } from './receive/from-redis.ts'
export type {
  IoredisStreamsClient,
  NodeRedisStreamsClient,
  NodeRedisStreamsCluster,
  RedisStreamsClient,
} from './connection/command-port.ts'
export type { RedisTlsOptions } from './connection/connect-options.ts'
export {
  BrokerUnavailableError,
  DedupStoreUnavailableError,
  InvalidMessageError,
  InvalidOptionError,
  PermanentError,
  RetryLaterError,
  TxboxError,
  isTxboxError,
} from '@txbox/core'
export type {
  DedupResult,
  DedupStore,
  InboxMessage,
  OutboxMessage,
  PublishOptions,
  PublishResult,
  Publisher,
  Source,
} from '@txbox/core'
