import { BrokerUnavailableError } from '@txbox/core'
import { kindOf, reasonIn, refusalIn } from '../connection/aws-errors.ts'
import type { AwsService } from '../connection/aws-service.ts'
import { QueueUrls } from '../connection/queue-urls.ts'
import type { Destination } from '../publish/destination.ts'
import { GatheredEntries } from './gathered-entries.ts'
import { wholeSeconds } from './source-options.ts'
import type { SqsMessage } from './sqs-message.ts'

/** A message with the receipt by which it is settled. */
export interface ReceivedSqsMessage extends SqsMessage {
  readonly ReceiptHandle: string
}

interface Change {
  readonly ReceiptHandle: string
  readonly VisibilityTimeout?: number
}

interface ChangeOutput {
  readonly Successful?: readonly { readonly Id?: string }[] | undefined
  readonly Failed?:
    | readonly { readonly Id?: string; readonly Code?: string; readonly Message?: string }[]
    | undefined
}

/** The requests of a source to its queue. */
export class ReceivedQueue {
  readonly service: AwsService
  readonly queue: Destination
  readonly url: string
  readonly #deletions = new GatheredEntries<Change>((entries) => this.#change('DeleteMessageBatch', entries))
  readonly #visibilities = new GatheredEntries<Change>((entries) =>
    this.#change('ChangeMessageVisibilityBatch', entries),
  )

  private constructor(service: AwsService, queue: Destination, url: string) {
    this.service = service
    this.queue = queue
    this.url = url
  }

  /** @throws {BrokerUnavailableError} when the queue does not exist, or SQS cannot be reached or refuses the credentials. */
  static async open(service: AwsService, queue: Destination): Promise<ReceivedQueue> {
    try {
      const url = queue.isQueueName ? await new QueueUrls(service).of(queue.name, undefined) : queue.name
      await service
        .call('GetQueueAttributes', { QueueUrl: url, AttributeNames: ['QueueArn'] }, undefined)
        .catch((error: unknown) => {
          // Receiving needs no right to ask for attributes.
          if (refusalIn(error)?.kind !== 'forbidden') throw error
        })
      return new ReceivedQueue(service, queue, url)
    } catch (error) {
      throw failedAt(service, queue, error)
    }
  }

  /**
   * @param attemptId a repeated request with this id gets the same messages, in a FIFO queue.
   * @throws {BrokerUnavailableError}
   */
  async receive(
    how: {
      readonly limit: number
      readonly waitMs: number
      readonly visibilityTimeoutMs: number
      readonly attemptId: string | undefined
    },
    signal: AbortSignal,
  ): Promise<readonly ReceivedSqsMessage[]> {
    const input = {
      QueueUrl: this.url,
      MaxNumberOfMessages: how.limit,
      WaitTimeSeconds: wholeSeconds(how.waitMs),
      VisibilityTimeout: wholeSeconds(how.visibilityTimeoutMs),
      MessageAttributeNames: ['All'],
      MessageSystemAttributeNames: [
        ...['ApproximateReceiveCount', 'MessageGroupId', 'MessageDeduplicationId', 'SentTimestamp'],
      ],
      ...(how.attemptId !== undefined && { ReceiveRequestAttemptId: how.attemptId }),
    }
    try {
      const { Messages = [] } = await this.service.call<{ Messages?: readonly ReceivedSqsMessage[] }>(
        'ReceiveMessage',
        input,
        signal,
        how.waitMs,
      )
      return Messages
    } catch (error) {
      throw failedAt(this.service, this.queue, error)
    }
  }

  /** @returns whether the receipt was valid. @throws {BrokerUnavailableError} when that is unknown. */
  delete({ ReceiptHandle }: ReceivedSqsMessage): Promise<boolean> {
    return this.#deletions.add({ ReceiptHandle })
  }

  /** @returns whether the receipt was valid. @throws {BrokerUnavailableError} when that is unknown. */
  changeVisibility({ ReceiptHandle }: ReceivedSqsMessage, ms: number): Promise<boolean> {
    return this.#visibilities.add({ ReceiptHandle, VisibilityTimeout: wholeSeconds(ms) })
  }

  /** Waits until all settlements are answered. */
  async idle(): Promise<void> {
    await Promise.all([this.#deletions.idle(), this.#visibilities.idle()])
  }

  async #change(command: string, changes: readonly Change[]): Promise<readonly (boolean | Error)[]> {
    const Entries = changes.map((change, n) => ({ Id: String(n), ...change }))
    let output: ChangeOutput
    try {
      output = await this.service.call(command, { QueueUrl: this.url, Entries }, undefined)
    } catch (error) {
      throw failedAt(this.service, this.queue, error)
    }
    const done = new Set((output.Successful ?? []).map(({ Id }) => Id))
    const failed = new Map((output.Failed ?? []).map((entry) => [entry.Id, entry]))
    return changes.map((_, n) => {
      if (done.has(String(n))) return true
      const { Code = '', Message = '' } = failed.get(String(n)) ?? {}
      if (isReceiptRefused(Code)) return false
      return failedAt(this.service, this.queue, { name: Code, message: Message })
    })
  }
}

/** Codes that say that a receipt is not valid any more: its visibility timeout is over, or another consumer has the message. */
const RECEIPT_CODES = /ReceiptHandleIsInvalid|MessageNotInflight/i

function isReceiptRefused(code: string): boolean {
  return RECEIPT_CODES.test(code) || kindOf(code) === 'invalid'
}

function failedAt(service: AwsService, queue: Destination, error: unknown): BrokerUnavailableError {
  if (error instanceof BrokerUnavailableError) return error
  return new BrokerUnavailableError(`Queue ${queue.name} of ${service.title} failed: ${reasonIn(error)}.`)
}
