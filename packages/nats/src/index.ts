export { natsPublisher } from './publish/nats-publisher.ts'
export type { NatsPublisherOptions } from './publish/nats-publisher-options.ts'
export type { NatsConnectionOptions, NatsTlsOptions } from './connection/connection-options.ts'
export { fromNats, type NatsMessage } from './receive/from-nats.ts'
export { natsSource } from './receive/nats-source.ts'
export type { NatsConsumerDeclaration, NatsSourceOptions } from './receive/nats-source-options.ts'
export type { NatsSourceMessage } from './receive/delivery-reader.ts'
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
  PublishOptions,
  PublishResult,
  Publisher,
  Source,
} from '@txbox/core'
