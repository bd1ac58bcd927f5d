import { PermanentError, RetryLaterError, type OutboxMessage, type PublishResult } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import type { Refusal } from '../connection/aws-errors.ts'
import type { Destination } from './destination.ts'

/** How long a message waits that was throttled: the limits of SQS hold for each second. */
const THROTTLED_MS = 2000

const ADVICE: Readonly<Record<Refusal['kind'], string>> = {
  missing: 'Create it, or correct the name, the region or the account',
  forbidden:
    'Grant sqs:SendMessage, and sqs:GetQueueUrl for a queue by its name, or sns:Publish; and the use of its KMS key',
  trouble: 'It cannot take messages at the moment',
  throttled: 'It takes no more messages at the moment',
  'too-large': 'Publish a smaller message, or raise the maximum message size of the queue',
  invalid: 'Every attempt would fail',
}

/**
 * Returns the result of a message that was refused.
 *
 * @param wasSeen whether this publisher has published to the destination before: then a missing destination is an outage of its own.
 */
export function refusedResult(
  { id }: OutboxMessage,
  { name }: Destination,
  { kind, reason }: Refusal,
  { wasSeen, bytes }: { readonly wasSeen: boolean; readonly bytes: number },
): PublishResult {
  const size = kind === 'too-large' ? ` The message has ${bytes} bytes with its attributes.` : ''
  const text = `Message ${oneLine(id)} was not accepted by ${oneLine(name, 300)}: ${reason}. ${ADVICE[kind]}.${size}`
  if (kind === 'invalid' || kind === 'too-large') {
    return { status: 'rejected', retryable: false, error: new PermanentError(text) }
  }
  const error = new RetryLaterError({ message: text })
  const isOutage = kind === 'trouble' || kind === 'throttled' || (kind === 'missing' && wasSeen)
  return {
    status: 'rejected',
    retryable: true,
    error,
    ...(isOutage && { counted: false }),
    ...(kind === 'throttled' && { retryAfterMs: THROTTLED_MS }),
  }
}
