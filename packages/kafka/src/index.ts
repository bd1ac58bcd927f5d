export { kafkaPublisher } from './publish/kafka-publisher.ts'
export type { KafkaPublisherOptions, KafkaSaslOptions, KafkaTlsOptions } from './publish/kafka-options.ts'
export { fromKafka, type KafkaRecord } from './receive/from-kafka.ts'
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
