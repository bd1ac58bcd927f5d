export { natsPublisher } from './publish/nats-publisher.ts'
export type { NatsPublisherOptions } from './publish/nats-publisher-options.ts'
export type { NatsConnectionOptions, NatsTlsOptions } from './connection/connection-options.ts'
export { fromNats, type NatsMessage } from './receive/from-nats.ts'
export {
  BrokerUnavailableError,
  InvalidMessageError,
  InvalidOptionError,
  PermanentError,
  RetryLaterError,
  TxboxError,
  isTxboxError,
} from '@txbox/core'
export type { InboxMessage, OutboxMessage, PublishOptions, PublishResult, Publisher } from '@txbox/core'
