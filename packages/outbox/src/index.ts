export { createOutbox, type MessageOf, type Outbox, type OutboxOf } from './create-outbox.ts'
export {
  DatabaseUnavailableError,
  InvalidMessageError,
  InvalidOptionError,
  NotInTransactionError,
  SchemaError,
  TransactionAbortedError,
  TransactionConflictError,
  TxboxError,
  UnsupportedTransactionError,
  defineLibrary,
  isTxboxError,
  sqlTransaction,
} from '@txbox/core'
export type {
  Database,
  DeduplicationOptions,
  NewMessage,
  SqlAnswer,
  SqlTransaction,
  SqlTransactionOptions,
  StoredId,
  TransactionLibraries,
  TransactionLibrary,
  TransactionLibraryRoot,
} from '@txbox/core'
