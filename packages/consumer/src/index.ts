export type { BatchContext, Batcher, BatcherEvents, BatcherOptions, CloseOptions } from './batcher/batcher.ts'
export type {
  Consumer,
  ConsumerContext,
  ConsumerEvents,
  ConsumerFigures,
  Guard,
  HandledOutcome,
  MessageEvent,
} from './options/consumer.ts'
export type {
  BatchHandler,
  BatchOptions,
  ConsumerOptions,
  DatabaseConsumerOptions,
  InboxConsumerOptions,
  MessageHandler,
  PlainConsumerOptions,
  TransactionBatchHandler,
  TransactionHandler,
} from './options/consumer-options.ts'
export type {
  AnyLocalConsumerOptions,
  LocalBatchConsumerOptions,
  LocalBatchHandler,
  LocalBatchHandlers,
  LocalConsumer,
  LocalConsumerOptions,
  LocalDrainResult,
  LocalHandler,
  LocalHandlers,
} from './options/local-options.ts'
export type { LocalInboxMessage } from './options/local-message.ts'
export { atLeastOnce, type AtLeastOnce } from './options/at-least-once.ts'
export { createBatcher } from './batcher/create-batcher.ts'
export { createConsumer } from './create-consumer.ts'
export { createLocalConsumer } from './create-local-consumer.ts'
export { sqlDedup, type SqlDedup, type SqlDedupOptions } from './sql-dedup.ts'
export { BatcherClosedError } from './batcher/batcher-closed-error.ts'
export { ConsumerStoppedError, HandleTimeoutError } from './errors/errors.ts'
export {
  DatabaseAccessError,
  DatabaseUnavailableError,
  DedupStoreUnavailableError,
  InvalidMessageError,
  InvalidOptionError,
  PermanentError,
  RetryLaterError,
  SchemaError,
  TransactionAbortedError,
  TxboxError,
  consoleLogger,
  exponentialBackoff,
  isTxboxError,
} from '@txbox/core'
export type {
  DedupResult,
  DedupStore,
  DeadLettered,
  Delivery,
  InboxContext,
  InboxMessage,
  Logger,
  OpenSource,
  OutboxMessage,
  PublishResult,
  Publisher,
  ReceivedMessage,
  RetryPolicy,
  RunOutcome,
  RunsMessages,
  Source,
  SourceTraits,
} from '@txbox/core'
