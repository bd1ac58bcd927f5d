export { portsKey, type AnyRoot, type ConnectedDatabase, type Database } from './database.ts'
export type { DeadLetterSelection, DeadLetters } from './dead-letters.ts'
export type { DedupResult, DedupStore } from './dedup-store.ts'
export type { DeduplicationOptions } from './deduplication.ts'
export { days, hours } from './durations.ts'
export { decodeHeaders } from './encode-messages.ts'
export {
  BrokerUnavailableError,
  DatabaseAccessError,
  DatabaseUnavailableError,
  DedupStoreUnavailableError,
  GarbageCollectionError,
  InvalidMessageError,
  InvalidOptionError,
  LeaseLostError,
  NotInTransactionError,
  PermanentError,
  PublishTimeoutError,
  ReceiptExpiredError,
  ReceiveAttemptError,
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
export { fingerprint } from './fingerprint.ts'
export { businessKey, messageId, sha256OfBody, type Key, type KeyExtractor } from './keys.ts'
export { LIMITS } from './limits.ts'
export { consoleLogger, type Logger, type LogLevel } from './logger.ts'
export type {
  AnyMessage,
  InboxMessage,
  MessageIdentity,
  NewMessage,
  OneOrMore,
  OutboxMessage,
} from './messages.ts'
export type { ConnectedPorts, DatabasePorts } from './ports/database-ports.ts'
export type {
  DeadLetter,
  DeadLetterFilter,
  DeadLetterPage,
  DeadLetterPosition,
  DeadLetterStore,
  ParkedMessage,
  KeptError,
  StoredPayload,
} from './ports/dead-letter-store.ts'
export type { CollectionRecord, GarbageStore, Removal } from './ports/garbage-store.ts'
export type { Claim, ClaimOptions, ClaimResult, InboxStore } from './ports/inbox-store.ts'
export type {
  BlockingKey,
  BoundedCount,
  Finding,
  InspectionStore,
  Lag,
  LeaseFigures,
  CollectableFigures,
  QueueFigures,
  StuckKey,
  StatusFigures,
} from './ports/inspection-store.ts'
export type { Lease, LeaseHolder, LeaseRequest, LeaseStore } from './ports/lease-store.ts'
export type { NewStoredMessage, OutboxStore, StoredMessage } from './ports/outbox-store.ts'
export type {
  Giveback,
  QueueReceipt,
  QueueSender,
  QueueStore,
  ReceiveAttempt,
  ReceiveRequest,
  ReceivedMessage,
} from './ports/queue-store.ts'
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
  SharedTransaction,
  VersionBufferStore,
  VersionChain,
  WaitingChange,
} from './ports/version-buffer-store.ts'
export type { InboxContext, RunOutcome, RunsMessages } from './runs-messages.ts'
export type { DeadLettered, Delivery, OpenSource, Source, SourceTraits } from './source.ts'
export type { PublishOptions, PublishResult, Publisher } from './publisher.ts'
export {
  sqlTransaction,
  type SqlAnswer,
  type SqlTransaction,
  type SqlTransactionOptions,
} from './sql-transaction.ts'
export {
  defineLibrary,
  type BorrowedConnection,
  type TransactionLibraries,
  type TransactionLibrary,
  type TransactionLibraryRoot,
} from './transaction-library.ts'
export type { StoredId } from './stored-id.ts'
export { exponentialBackoff, type RetryPolicy } from './retry-policy.ts'
export type { IsolationLevel, TransactOptions } from './transact-options.ts'
export type {
  DrizzleTransactionLike,
  InTransaction,
  KnexTransactionLike,
  KyselyTransactionLike,
  MariadbConnectionLike,
  MikroormEntityManagerLike,
  Mysql2ConnectionLike,
  NoRoot,
  PgClientLike,
  PgliteTransactionLike,
  PgPromiseTaskLike,
  PostgresjsTransactionLike,
  PrismaTransactionLike,
  SequelizeTransactionLike,
  MigrationRootOf,
  MysqlPoolLike,
  PostgresPoolLike,
  RootOf,
  TransactionHandle,
  TransactionOf,
  TypeormEntityManagerLike,
  TypeormQueryRunnerLike,
} from './transaction-handle.ts'
