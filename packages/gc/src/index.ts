export { createGarbageCollector } from './create-garbage-collector.ts'
export type {
  Collected,
  GarbageCollector,
  GarbageCollectorEvents,
  GarbageCollectorOptions,
  Progress,
  RunOptions,
  SweptBuffer,
} from './garbage-collector.ts'
export { scheduleWithPgBoss, type PgBossLike, type PgBossScheduleOptions } from './schedule-with-pg-boss.ts'
export {
  DatabaseAccessError,
  DatabaseUnavailableError,
  GarbageCollectionError,
  InvalidOptionError,
  SchemaError,
  TxboxError,
  consoleLogger,
  days,
  hours,
  isTxboxError,
} from '@txbox/core'
export type { ConnectedDatabase, Logger } from '@txbox/core'
