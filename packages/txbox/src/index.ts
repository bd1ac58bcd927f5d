// This package only gives the packages of txbox one short name, so each file re-exports all of them: a list of names would
// have to be kept in step with theirs. The compiler refuses two different things under one name.
// `@txbox/core` is not re-exported as a whole: the packages below re-export what their users need of it, and the rest is
// for authors of databases and publishers.
export * from '@txbox/gc'
export * from '@txbox/inbox'
export * from '@txbox/outbox'
export * from '@txbox/relay'
export { createTxbox } from './box/create-txbox.ts'
export { StartError } from './box/start-error.ts'
export type {
  TxboxBatchConsumerOptions,
  TxboxBatchHandler,
  TxboxConsumer,
  TxboxConsumerOptions,
  TxboxHandler,
  TxboxOptions,
  TxboxSource,
  TxboxSourceHandler,
} from './box/box-options.ts'
export type { Txbox, TxboxDrained, TxboxHealth, TxboxMessage, TxboxTrouble } from './box/txbox.ts'
// Local consumers need no broker, and dedup leases no consumer. The consumers of brokers, and the batcher, have an entry of their own.
export {
  atLeastOnce,
  createLocalConsumer,
  sqlDedup,
  type AtLeastOnce,
  type LocalBatchConsumerOptions,
  type LocalBatchHandler,
  type LocalConsumer,
  type LocalConsumerOptions,
  type LocalDrainResult,
  type LocalHandler,
  type LocalInboxMessage,
  type SqlDedup,
  type SqlDedupOptions,
} from '@txbox/consumer'
// The other entry of versioning loads Kysely: txbox/versioning.
export * from '@txbox/versioning/sql'
