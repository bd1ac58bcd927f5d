import { kindOf, reasonIn, refusalIn, type Refusal } from '../connection/aws-errors.ts'
import type { AwsService } from '../connection/aws-service.ts'
import type { QueueUrls } from '../connection/queue-urls.ts'
import type { Destination } from './destination.ts'
import type { OutgoingMessage } from './outgoing-message.ts'

/** The services that a publisher sends to. */
export interface Services {
  readonly sqs: AwsService
  readonly sns: AwsService
  readonly urls: QueueUrls
}

/** The result of each message of a batch, or of the batch as a whole. */
export type BatchAnswer = readonly (Refusal | 'accepted')[] | Refusal

interface BatchOutput {
  readonly Successful?: readonly { readonly Id?: string }[] | undefined
  readonly Failed?: readonly FailedEntry[] | undefined
}

interface FailedEntry {
  readonly Id?: string
  readonly Code?: string
  readonly Message?: string
  readonly SenderFault?: boolean
}

/**
 * Sends messages to one destination by one request.
 *
 * @throws {BrokerUnavailableError} when it is unknown which messages were accepted; the signal's reason when the signal is aborted.
 */
export async function sendBatch(
  { sqs, sns, urls }: Services,
  destination: Destination,
  messages: readonly OutgoingMessage[],
  signal: AbortSignal,
): Promise<BatchAnswer> {
  const service = destination.service === 'SQS' ? sqs : sns
  let output: BatchOutput
  try {
    if (destination.service === 'SNS') {
      const PublishBatchRequestEntries = messages.map((message, n) => snsEntry(message, n, destination))
      const input = { TopicArn: destination.name, PublishBatchRequestEntries }
      output = await service.call('PublishBatch', input, signal)
    } else {
      const QueueUrl = destination.isQueueName ? await urls.of(destination.name, signal) : destination.name
      const Entries = messages.map((message, n) => sqsEntry(message, n, destination))
      output = await service.call('SendMessageBatch', { QueueUrl, Entries }, signal)
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason
    const refusal = refusalIn(error)
    if (refusal === undefined) throw service.unavailable(error)
    return refusal
  }
  const answers = answersIn(output, messages.length)
  if (answers === undefined)
    throw service.unavailable(new Error('it answered without a result for each message'))
  return answers
}

function sqsEntry(message: OutgoingMessage, n: number, { isFifo }: Destination): object {
  const { body, attributes } = message
  return {
    Id: String(n),
    MessageBody: body,
    MessageAttributes: attributes,
    // In a standard queue, a group makes the queue fair, and has no order.
    ...(isFifo ? fifoFields(message) : message.group !== undefined && { MessageGroupId: message.group }),
  }
}

function snsEntry(message: OutgoingMessage, n: number, { isFifo }: Destination): object {
  const { body, attributes } = message
  return {
    Id: String(n),
    Message: body,
    MessageAttributes: attributes,
    ...(isFifo && fifoFields(message)),
  }
}

function fifoFields({ group, ownGroup, deduplicationId }: OutgoingMessage): object {
  return { MessageGroupId: group ?? ownGroup, MessageDeduplicationId: deduplicationId }
}

/** @returns `undefined` if a message has no result. */
function answersIn(
  { Successful, Failed }: BatchOutput,
  count: number,
): readonly (Refusal | 'accepted')[] | undefined {
  const answers = new Map<string, Refusal | 'accepted'>()
  for (const { Id } of Successful ?? []) answers.set(Id ?? '', 'accepted')
  for (const failed of Failed ?? []) answers.set(failed.Id ?? '', refusalOf(failed))
  const inOrder = Array.from({ length: count }, (_, n) => answers.get(String(n)))
  return inOrder.every((answer) => answer !== undefined) ? inOrder : undefined
}

/** `SenderFault` says whether the message or the service is at fault, unless the code says more. */
function refusalOf({ Code = '', Message = '', SenderFault }: FailedEntry): Refusal {
  const kind = kindOf(Code)
  const reason = reasonIn({ name: Code, message: Message })
  if (kind !== 'unknown' && kind !== 'invalid') return { kind, reason }
  return { kind: SenderFault === true ? 'invalid' : 'trouble', reason }
}
