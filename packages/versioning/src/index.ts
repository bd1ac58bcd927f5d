export { applyIfNewer } from './rows/apply-if-newer.ts'
export { applyVersion } from './rows/apply-version.ts'
export { createVersionBuffer } from './chains/create-version-buffer.ts'
export { deleteVersioned } from './rows/delete-versioned.ts'
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
export type { RowKey, TimeColumn, VersionColumn } from './rows/table-options.ts'
export { transition } from './rows/transition.ts'
export { updateMerged } from './rows/update-merged.ts'
export { updateVersioned } from './rows/update-versioned.ts'
export type {
  BufferedDeadLetter,
  DeadLetterReason,
  VersionBuffer,
  VersionBufferOptions,
  VersionBufferOutcome,
  VersionedMessage,
} from './chains/version-buffer.ts'
export { versionGuard, type VersionGuard, type VersionGuardOptions } from './rows/version-guard.ts'
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
