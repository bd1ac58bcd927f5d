export { createQueue } from './create-queue.ts'
export type {
  NewQueueMessage,
  Queue,
  QueueOptions,
  Receipt,
  ReceiveOptions,
  Received,
  ReleaseOptions,
  SendingQueue,
} from './queue.ts'
export { queueSource, type QueueSourceOptions } from './queue-source.ts'
export {
  DatabaseUnavailableError,
  InvalidMessageError,
  InvalidOptionError,
  NotInTransactionError,
  ReceiptExpiredError,
  ReceiveAttemptError,
  TxboxError,
  UnsupportedTransactionError,
  isTxboxError,
} from '@txbox/core'
export type {
  ConnectedDatabase,
  Database,
  DeadLetter,
  DeadLetterSelection,
  DeadLetters,
  DeduplicationOptions,
  InboxMessage,
  Source,
  StoredId,
} from '@txbox/core'
