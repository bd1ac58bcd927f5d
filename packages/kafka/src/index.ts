export { kafkaPublisher } from './publish/kafka-publisher.ts'
export type { KafkaPublisherOptions, KafkaSaslOptions, KafkaTlsOptions } from './publish/kafka-options.ts'
export {
  BrokerUnavailableError,
  InvalidOptionError,
  PermanentError,
  RetryLaterError,
  TxboxError,
  isTxboxError,
} from '@txbox/core'
export type { OutboxMessage, PublishOptions, PublishResult, Publisher } from '@txbox/core'
