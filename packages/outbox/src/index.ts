export { createOutbox, type MessageOf, type Outbox, type OutboxOf } from './create-outbox.ts'
export {
  InvalidMessageError,
  InvalidOptionError,
  NotInTransactionError,
  TxboxError,
  UnsupportedTransactionError,
  isTxboxError,
} from '@txbox/core'
export type { Database, DeduplicationOptions, NewMessage, StoredId } from '@txbox/core'
