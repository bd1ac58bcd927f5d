export { createInbox } from './create-inbox.ts'
export type {
  DetachedInbox,
  DuplicateEvent,
  Inbox,
  InboxContext,
  InboxHandler,
  InboxOptions,
} from './inbox.ts'
export { isSettled, type InboxOutcome, type Stored } from './outcome.ts'
export {
  DatabaseAccessError,
  DatabaseUnavailableError,
  InvalidMessageError,
  InvalidOptionError,
  NotInTransactionError,
  PermanentError,
  RetryLaterError,
  SchemaError,
  TransactionAbortedError,
  TransactionConflictError,
  TxboxError,
  UnsupportedTransactionError,
  businessKey,
  days,
  fingerprint,
  hours,
  isTxboxError,
  messageId,
  sha256OfBody,
} from '@txbox/core'
export type {
  AnyMessage,
  ConnectedDatabase,
  Database,
  InboxMessage,
  KeyExtractor,
  MessageIdentity,
} from '@txbox/core'
