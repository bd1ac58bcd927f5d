export { createOutbox, type MessageOf, type Outbox, type StoredId } from './create-outbox.ts'
export {
  InvalidMessageError,
  InvalidOptionError,
  NotInTransactionError,
  TxboxError,
  UnsupportedTransactionError,
  isTxboxError,
} from '@txbox/core'
export type { Database, DeduplicationOptions, NewMessage } from '@txbox/core'
