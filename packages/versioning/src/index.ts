export { applyIfNewer } from './apply-if-newer.ts'
export { applyVersion } from './apply-version.ts'
export { createVersionBuffer } from './create-version-buffer.ts'
export { deleteVersioned } from './delete-versioned.ts'
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
export { stateMachine, type StateMachine } from './state-machine.ts'
export type { RowKey, TimeColumn, VersionColumn } from './table-options.ts'
export { transition } from './transition.ts'
export { updateMerged } from './update-merged.ts'
export { updateVersioned } from './update-versioned.ts'
export type {
  BufferedDeadLetter,
  DeadLetterReason,
  VersionBuffer,
  VersionBufferOptions,
  VersionBufferOutcome,
  VersionedMessage,
} from './version-buffer.ts'
export { versionGuard, type VersionGuardOptions } from './version-guard.ts'
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
  hours,
  isTxboxError,
} from '@txbox/core'
export type { ConnectedDatabase, Database, InboxMessage } from '@txbox/core'
