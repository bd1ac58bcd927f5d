export { sqsPublisher } from './publish/sqs-publisher.ts'
export type { SqsPublisherOptions } from './publish/sqs-options.ts'
export { sqsSource } from './receive/sqs-source.ts'
export type { SqsSourceOptions } from './receive/source-options.ts'
export { fromSqs } from './receive/from-sqs.ts'
export type { SqsAttribute, SqsLambdaRecord, SqsMessage } from './receive/sqs-message.ts'
export type { AwsClient } from './connection/aws-client.ts'
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
  OutboxMessage,
  PublishOptions,
  PublishResult,
  Publisher,
  Source,
} from '@txbox/core'
