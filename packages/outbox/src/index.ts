export { createOutbox, type MessageOf, type Outbox } from './create-outbox.ts'
export {
  InvalidMessageError,
  InvalidOptionError,
  NotInTransactionError,
  TxboxError,
  UnsupportedTransactionError,
  isTxboxError,
} from '@txbox/core'
export type { Database, DeduplicationOptions, NewMessage, StoredId } from '@txbox/core'
