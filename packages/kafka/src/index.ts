export { kafkaPublisher } from './publish/kafka-publisher.ts'
export type {
  KafkaConnectionOptions,
  KafkaSaslOptions,
  KafkaTlsOptions,
} from './connection/connection-options.ts'
export type { KafkaPublisherOptions } from './publish/kafka-options.ts'
export { kafkaSource, type KafkaSourceOptions } from './receive/kafka-source.ts'
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
export type {
  InboxMessage,
  OpenSource,
  OutboxMessage,
  PublishOptions,
  PublishResult,
  Publisher,
  Source,
} from '@txbox/core'
