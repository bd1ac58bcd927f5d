/* The entry for every library. It does not load Kysely. */
export { createVersioning } from './tables/create-versioning.ts'
export { createVersionBuffer } from './chains/create-version-buffer.ts'
export {
  EditConflictError,
  ReentrantCallError,
  RowNotFoundError,
  TransitionRefusedError,
  TransitionTooEarlyError,
  VersionConflictError,
  VersionDivergedError,
  VersionGapError,
} from './errors.ts'
export { retryOnConflict } from './retry-on-conflict.ts'
export { stateMachine, type StateMachine } from './rules/state-machine.ts'
export type { UntypedTables } from './tables/table-options.ts'
export type { TableGuard, TableGuardOptions, Versioning } from './tables/versioning.ts'
export type {
  BufferedDeadLetter,
  DeadLetterReason,
  VersionBuffer,
  VersionBufferOptions,
  VersionBufferOutcome,
  VersionedMessage,
} from './chains/version-buffer.ts'
export type { SameKind, Version } from './version.ts'
export {
  DatabaseAccessError,
  DatabaseUnavailableError,
  InvalidMessageError,
  InvalidOptionError,
  NotInTransactionError,
  SchemaError,
  TransactionAbortedError,
  TransactionConflictError,
  TxboxError,
  UnsupportedTransactionError,
  days,
  defineLibrary,
  hours,
  isTxboxError,
  sqlTransaction,
} from '@txbox/core'
export type {
  ConnectedDatabase,
  Database,
  InboxMessage,
  SqlAnswer,
  SqlTransaction,
  SqlTransactionOptions,
  TransactionLibraries,
  TransactionLibrary,
  TransactionLibraryRoot,
} from '@txbox/core'
