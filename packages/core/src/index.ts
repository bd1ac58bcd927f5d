export { answerWithin } from './answer-within.ts'
export { canonicalJson } from './canonical-json.ts'
export { isClusterConflict, isMysqlConflict, isPostgresConflict } from './conflict-errors.ts'
export {
  connectedPortsOf,
  isConnected,
  portsKey,
  portsOf,
  type ConnectedDatabase,
  type Database,
  type IsolationLevel,
} from './database.ts'
export { decodeHeaders } from './decode-headers.ts'
export { days, hours } from './durations.ts'
export {
  BrokerUnavailableError,
  DatabaseAccessError,
  DatabaseUnavailableError,
  GarbageCollectionError,
  InvalidMessageError,
  InvalidOptionError,
  LeaseLostError,
  NotInTransactionError,
  PermanentError,
  PublishTimeoutError,
  RetryLaterError,
  SchemaError,
  SettlementError,
  TransactionAbortedError,
  TransactionConflictError,
  TxboxError,
  UnsupportedTransactionError,
  isTxboxError,
  type TxboxErrorCode,
} from './errors.ts'
export { EventListeners } from './event-listeners.ts'
export { fingerprint } from './fingerprint.ts'
export {
  businessKey,
  idempotencyKey,
  inboxKey,
  messageId,
  sha256OfBody,
  type InboxKey,
  type Key,
  type KeyExtractor,
} from './keys.ts'
export { LIMITS } from './limits.ts'
export { loggedEvents, type LogLine, type LogLines, type LoggedEvents } from './logged-events.ts'
export { consoleLogger, loggerOption, type Logger, type LogLevel } from './logger.ts'
export type { AnyMessage, InboxMessage, MessageIdentity, NewMessage, OutboxMessage } from './messages.ts'
export { oneLine } from './one-line.ts'
export { OptionChecker, nameOf } from './options.ts'
export type { ConnectedPorts, DatabasePorts } from './ports/database-ports.ts'
export type {
  DeadLetter,
  DeadLetterFilter,
  DeadLetterPage,
  DeadLetterPosition,
  DeadLetterStore,
  ParkedMessage,
  StoredPayload,
} from './ports/dead-letter-store.ts'
export type { CollectionRecord, GarbageStore, Removal } from './ports/garbage-store.ts'
export type { Claim, ClaimResult, InboxStore } from './ports/inbox-store.ts'
export type {
  BlockingKey,
  BoundedCount,
  Finding,
  InspectionStore,
  Lag,
  LeaseFigures,
  StatusFigures,
} from './ports/inspection-store.ts'
export type { Lease, LeaseHolder, LeaseRequest, LeaseStore } from './ports/lease-store.ts'
export type { NewStoredMessage, OutboxStore, StoredMessage } from './ports/outbox-store.ts'
export type {
  BacklogMessage,
  BacklogRow,
  ParkedSettlement,
  ReadLimits,
  Refusal,
  RelayStore,
  Settlement,
  ShardWork,
} from './ports/relay-store.ts'
export type { Session } from './ports/session.ts'
export type { Sleeper, WakeUps } from './ports/wake-ups.ts'
export type {
  ChainPosition,
  ChainStep,
  DeadChange,
  VersionBufferStore,
  VersionChain,
  WaitingChange,
} from './ports/version-buffer-store.ts'
export { propertyOf } from './property-of.ts'
export type { PublishOptions, PublishResult, Publisher } from './publisher.ts'
export { readableDuration } from './readable-duration.ts'
export { readableNumber } from './readable-number.ts'
export { reasonOf } from './reason-of.ts'
export { RepeatedTrouble } from './repeated-trouble.ts'
export { exponentialBackoff, type RetryPolicy } from './retry-policy.ts'
export { SHARDS, shardOf } from './shards.ts'
export { transactOptions, type TransactOptions } from './transact-options.ts'
export type {
  DrizzleTransactionLike,
  InTransaction,
  KnexTransactionLike,
  KyselyTransactionLike,
  MemoryTransaction,
  MikroOrmEntityManagerLike,
  Mysql2ConnectionLike,
  PgClientLike,
  PostgresJsTransactionLike,
  PrismaTransactionLike,
  SequelizeTransactionLike,
  TransactionHandle,
  TransactionOf,
  TypeOrmEntityManagerLike,
} from './transaction-handle.ts'
export { uuidV7 } from './uuid-v7.ts'
