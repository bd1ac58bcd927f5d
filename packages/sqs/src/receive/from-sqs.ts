import { InvalidMessageError, type InboxMessage } from '@txbox/core'
import { decodePayload, nameOf, oneLine, payloadForm } from '@txbox/core/internal'
import { bytesOf, receivedFields, type ReceivedFields } from './received-fields.ts'
import { asSqsMessage, type SqsLambdaRecord, type SqsMessage } from './sqs-message.ts'

/**
 * Converts a message of SQS to a message for the inbox: as the AWS SDK receives it with `MessageAttributeNames: ['All']`, or as AWS Lambda
 * passes it in `event.Records`. An envelope of SNS is opened.
 *
 * - `id`, `type`, `correlationId`, `time` from the attributes `txbox-id`, `txbox-type`, `txbox-correlation-id` and `txbox-time`; without
 *   the last one, the time is when the message was sent, if the message has its `SentTimestamp`.
 * - `headers`: those that `sqsPublisher` has sent, and all other attributes that are text or numbers.
 * - `payload`: parsed, when the attribute `content-type` is JSON or missing; text, when it is `text/…`, in the charset that it names or
 *   else UTF-8; otherwise the bytes. `P` is not checked.
 *
 * @throws {InvalidMessageError} without the attribute `txbox-id`, for a body that is not what its content type says, and for JSON or text
 *   that is compressed. The same message would fail again.
 */
export function fromSqs<P = unknown>(message: SqsMessage | SqsLambdaRecord): InboxMessage<P> {
  const raw = checked(message)
  const fields = receivedFields(raw)
  if (fields.id === undefined) {
    throw new InvalidMessageError(
      "The message has no id: its attribute 'txbox-id' must be non-empty text. Receive it with MessageAttributeNames: ['All'], and make " +
        'the producer set the attribute to the same value in every resend; or pass on a message with an id that you derive from the content.',
    )
  }
  return messageOf<P>(fields, fields.id)
}

/**
 * Converts a message to a message with this id.
 *
 * @throws {InvalidMessageError} as `fromSqs` does.
 */
export function messageOf<P>(fields: ReceivedFields, id: string): InboxMessage<P> {
  if (fields.problem !== undefined) throw fields.problem
  return { id, ...fields.identity, payload: valueOf(id, fields) as P }
}

function valueOf(id: string, fields: ReceivedFields): unknown {
  const { contentType = '', contentEncoding = 'identity' } = fields
  const payload = bytesOf(fields)
  if (payloadForm(contentType) === 'bytes') return payload
  if (contentEncoding !== 'identity') {
    throw new InvalidMessageError(
      `Message ${oneLine(id === '' ? 'without an id' : id)} has the content encoding '${oneLine(contentEncoding, 40)}'. Decode its body, ` +
        'and pass on a message with that payload.',
    )
  }
  return decodePayload({ id, contentType, payload }, 'any')
}

function checked(message: SqsMessage | SqsLambdaRecord): SqsMessage {
  const given = typeof message === 'object' && message !== null ? asSqsMessage(message) : undefined
  if (typeof given?.Body === 'string') return given
  throw new InvalidMessageError(
    `fromSqs: expected a message of SQS with a 'Body', as the AWS SDK or Lambda pass it, not ${nameOf(message)}.`,
  )
}
