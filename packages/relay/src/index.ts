export { createDeadLetters } from './create-dead-letters.ts'
export { createRelay } from './create-relay.ts'
export { publishEach } from './publish-each.ts'
export type { Relay, RelayEvents, RelayOptions } from './options/relay.ts'
export {
  DatabaseAccessError,
  DatabaseUnavailableError,
  InvalidMessageError,
  InvalidOptionError,
  LeaseLostError,
  PermanentError,
  PublishTimeoutError,
  RetryLaterError,
  SchemaError,
  SettlementError,
  TxboxError,
  consoleLogger,
  exponentialBackoff,
  isTxboxError,
} from '@txbox/core'
export type {
  ConnectedDatabase,
  DeadLetter,
  DeadLetterSelection,
  DeadLetters,
  Logger,
  OutboxMessage,
  PublishResult,
  Publisher,
  RetryPolicy,
} from '@txbox/core'
