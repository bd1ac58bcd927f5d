import { randomUUID } from 'node:crypto'
import { PermanentError, RetryLaterError } from '@txbox/core'
import { explanationOf, oneLine } from '@txbox/core/internal'
import { refusalIn } from '../connection/aws-errors.ts'
import type { AwsService } from '../connection/aws-service.ts'
import { QueueUrls } from '../connection/queue-urls.ts'
import type { Destination } from '../publish/destination.ts'
import { MOST_ATTRIBUTES, bytesOfAttributes, type MessageAttribute } from '../publish/outgoing-message.ts'
import { sendableText } from '../publish/message-body.ts'
import { SQS_BYTES } from '../publish/sqs-options.ts'
import type { ReceivedSqsMessage } from './received-queue.ts'

/** The maximum length of the error in a dead letter. */
const ERROR_CHARACTERS = 1000

/** Why a message is a dead letter. */
export interface Death {
  readonly error: unknown
  readonly deliveries: number
  /** The substitute for the id of a message that has none. */
  readonly id?: string | undefined
}

/** The queue that takes the rejected messages of a source. */
export class DeadLetterQueue {
  readonly #service: AwsService
  readonly #queue: Destination
  readonly #source: string
  readonly #urls: QueueUrls

  /** @param source the name of the source. */
  constructor(service: AwsService, queue: Destination, source: string) {
    this.#service = service
    this.#queue = queue
    this.#source = source
    this.#urls = new QueueUrls(service)
  }

  /**
   * Sends a message as it was received, with the reason in further attributes, as far as there is room for them.
   *
   * @throws {PermanentError} when the queue refuses the message for good; {@link RetryLaterError} when it does for now;
   *   {@link BrokerUnavailableError} when that is unknown.
   */
  async take(message: ReceivedSqsMessage, death: Death): Promise<void> {
    const { name, isQueueName, isFifo } = this.#queue
    const { Body: MessageBody = '', Attributes = {} } = message
    try {
      await this.#service.call(
        'SendMessage',
        {
          QueueUrl: isQueueName ? await this.#urls.of(name, undefined) : name,
          MessageBody,
          MessageAttributes: this.#attributesOf(message, death),
          // A message that was redriven and is rejected again must not be taken for a copy of the first dead letter.
          ...(isFifo && {
            MessageGroupId: Attributes['MessageGroupId'] ?? randomUUID(),
            MessageDeduplicationId: randomUUID(),
          }),
        },
        undefined,
      )
    } catch (error) {
      const refusal = refusalIn(error)
      if (refusal === undefined) throw this.#service.unavailable(error)
      const text = `The queue ${oneLine(name, 300)} has not taken a dead letter: ${refusal.reason}.`
      if (refusal.kind === 'invalid' || refusal.kind === 'too-large') throw new PermanentError(text)
      throw new RetryLaterError({ message: text })
    }
  }

  #attributesOf(
    message: ReceivedSqsMessage,
    { error, deliveries, id }: Death,
  ): Record<string, MessageAttribute> {
    const attributes = { ...(message.MessageAttributes as Readonly<Record<string, MessageAttribute>>) }
    let bytes = Buffer.byteLength(message.Body ?? '') + bytesOfAttributes(attributes)
    const reasons: readonly (readonly [string, string | undefined])[] = [
      ['txbox-id', attributes['txbox-id'] === undefined && id !== '' ? id : undefined],
      ['txbox-error', explanationOf(error, ERROR_CHARACTERS)],
      ['txbox-deliveries', String(deliveries)],
      ['txbox-source', this.#source],
    ]
    for (const [name, text] of reasons) {
      const StringValue = text === undefined ? '' : sendableText(text)
      const attribute = { [name]: { DataType: 'String', StringValue } } as const
      bytes += bytesOfAttributes(attribute)
      const hasRoom =
        bytes <= SQS_BYTES && Object.keys({ ...attributes, ...attribute }).length <= MOST_ATTRIBUTES
      if (StringValue !== '' && hasRoom) Object.assign(attributes, attribute)
    }
    return attributes
  }
}
