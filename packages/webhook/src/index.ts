export { webhookPublisher } from './publish/webhook-publisher.ts'
export type { WebhookPublisherOptions } from './publish/webhook-options.ts'
export { webhookRetries } from './publish/webhook-retries.ts'
export { fromWebhook, type FromWebhookOptions, type WebhookMessage } from './receive/from-webhook.ts'
export { verifyWebhook, type VerifyWebhookOptions } from './receive/verify-webhook.ts'
export { InvalidSignatureError } from './schemes/invalid-signature-error.ts'
export type { VerifiedWebhook } from './schemes/scheme.ts'
export type { WebhookScheme } from './schemes/schemes.ts'
export type { FetchHeaders, WebhookHeaders, WebhookRequest } from './schemes/webhook-request.ts'
export {
  BrokerUnavailableError,
  InvalidMessageError,
  InvalidOptionError,
  PermanentError,
  RetryLaterError,
  TxboxError,
  isTxboxError,
} from '@txbox/core'
export type { InboxMessage, OutboxMessage, PublishResult, Publisher, RetryPolicy } from '@txbox/core'
