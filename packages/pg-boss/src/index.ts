export { pgBossPublisher } from './publish/pg-boss-publisher.ts'
export type { PgBossJobOptions, PgBossLike, PgBossPublisherOptions } from './publish/pg-boss-options.ts'
export { fromPgBoss, type PgBossJob } from './receive/from-pg-boss.ts'
export {
  BrokerUnavailableError,
  InvalidMessageError,
  InvalidOptionError,
  PermanentError,
  RetryLaterError,
  type InboxMessage,
  type OutboxMessage,
  type PublishResult,
  type Publisher,
} from '@txbox/core'
