export { fromRabbitmq, type RabbitmqDelivery } from './receive/from-rabbitmq.ts'
export type { RabbitmqSourceDelivery } from './receive/delivery-reader.ts'
export type {
  RabbitmqBinding,
  RabbitmqDelayedRetry,
  RabbitmqQueueDeclaration,
} from './receive/queue-declaration.ts'
export { rabbitmqSource, type RabbitmqSourceOptions } from './receive/rabbitmq-source.ts'
export { rabbitmqPublisher } from './publish/rabbitmq-publisher.ts'
export type { RabbitmqPublisherOptions } from './publish/rabbitmq-options.ts'
export type { RabbitmqTlsOptions } from './connection/tls-settings.ts'
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
