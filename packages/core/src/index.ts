export { portsKey, type AnyRoot, type ConnectedDatabase, type Database } from './database/database.ts'
export type { DeadLetterSelection, DeadLetters } from './database/dead-letters.ts'
export type { DedupResult, DedupStore } from './ports/dedup-store.ts'
export type { DeduplicationOptions } from './sending/deduplication.ts'
export { days, hours } from './time/durations.ts'
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
} from './errors/errors.ts'
export { fingerprint } from './messages/fingerprint.ts'
export { businessKey, messageId, sha256OfBody, type Key, type KeyExtractor } from './messages/keys.ts'
export { LIMITS } from './options/limits.ts'
export { consoleLogger, type Logger, type LogLevel } from './events/logger.ts'
export type {
  AnyMessage,
  InboxMessage,
  MessageIdentity,
  NewMessage,
  OneOrMore,
  OutboxMessage,
} from './messages/messages.ts'
export type { DeadLetter, DeadLetterFilter, DeadLetterPage } from './ports/dead-letter-store.ts'
export type { Loss } from './errors/lost-connection.ts'
export type { Session } from './ports/session.ts'
export type { InboxContext, RunOutcome, RunsMessages, RunsMessagesOptions } from './messages/runs-messages.ts'
export type {
  DeadLettered,
  Delivery,
  OpenSource,
  ReceivedMessage,
  Source,
  SourceTraits,
} from './ports/source.ts'
export { OrderedBatch } from './sending/ordered-batch.ts'
export { SharedConnection, type Connection } from './sending/shared-connection.ts'
export { reasonOf } from './errors/reason-of.ts'
export { unlessAborted } from './time/unless-aborted.ts'
export type { CloudEventsBinding, PublishOptions, PublishResult, Publisher } from './ports/publisher.ts'
export {
  sqlTransaction,
  type SqlAnswer,
  type SqlTransaction,
  type SqlTransactionOptions,
} from './database/sql-transaction.ts'
export {
  defineLibrary,
  type BorrowedConnection,
  type TransactionLibraries,
  type TransactionLibrary,
  type TransactionLibraryRoot,
} from './database/transaction-library.ts'
export type { StoredId } from './messages/stored-id.ts'
export { telemetryKey } from './telemetry/telemetry-option.ts'
export type { CounterName, GaugeName, HistogramName } from './telemetry/names.ts'
export type {
  Attributes,
  Observation,
  SpanDescription,
  SpanHandle,
  Telemetry,
} from './telemetry/telemetry.ts'
export type { TraceContext } from './telemetry/trace-context.ts'
export { exponentialBackoff, type RetryPolicy } from './time/retry-policy.ts'
export type { IsolationLevel, TransactOptions } from './ports/transact-options.ts'
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
} from './database/transaction-handle.ts'
