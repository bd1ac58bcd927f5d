export { fromRabbitmq, type RabbitmqDelivery } from './from-rabbitmq.ts'
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
export type { InboxMessage, OutboxMessage, PublishResult, Publisher } from '@txbox/core'
