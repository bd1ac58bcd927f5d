export { fromRabbitmq, type RabbitmqDelivery } from './from-rabbitmq.ts'
export {
  rabbitmqSource,
  type RabbitmqQueueDeclaration,
  type RabbitmqSourceOptions,
} from './rabbitmq-source.ts'
export { rabbitmqPublisher, type RabbitmqPublisherOptions } from './rabbitmq-publisher.ts'
export type { RabbitmqTlsOptions } from './tls-settings.ts'
export {
  BrokerUnavailableError,
  InvalidMessageError,
  InvalidOptionError,
  PermanentError,
  RetryLaterError,
  TxboxError,
  isTxboxError,
} from '@txbox/core'
export type {
  Delivery,
  InboxMessage,
  OpenSource,
  OutboxMessage,
  PublishResult,
  Publisher,
  Source,
} from '@txbox/core'
