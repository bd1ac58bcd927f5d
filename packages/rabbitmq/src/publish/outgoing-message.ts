import { PermanentError, type OutboxMessage } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'

export const KEY_HEADER = 'txbox-key'

/** The maximum length of a short string of AMQP 0-9-1. */
const SHORT_STRING_BYTES = 255

/** A message in the form in which it is sent to the broker. Each resend has the same form. */
export interface OutgoingMessage {
  readonly id: string
  readonly routingKey: string
  readonly content: Buffer
  readonly properties: {
    readonly mandatory: true
    readonly persistent: true
    readonly messageId: string
    readonly type: string | undefined
    readonly correlationId: string | undefined
    readonly contentType: string | undefined
    readonly contentEncoding: string | undefined
    readonly timestamp: number
    readonly headers: Readonly<Record<string, string>>
  }
}

/** @throws {PermanentError} when the message does not fit into AMQP: each attempt would fail. */
export function outgoingMessage(message: OutboxMessage, maxMessageBytes: number): OutgoingMessage {
  const { id, topic, type, key, payload, headers, correlationId, createdAt } = message
  const { contentType, contentEncoding } = message
  if (payload.byteLength > maxMessageBytes) {
    throw new PermanentError(
      `Message ${oneLine(id)} has a payload of ${payload.byteLength} bytes; 'maxMessageBytes' is ${maxMessageBytes}. Store the data ` +
        "elsewhere and publish a reference to it, or raise both that option and RabbitMQ's max_message_size.",
    )
  }
  checkShortString(id, 'id', id)
  checkShortString(id, 'topic', topic)
  checkShortString(id, 'type', type)
  checkShortString(id, 'correlation id', correlationId)
  checkShortString(id, 'content type', contentType)
  checkShortString(id, 'content encoding', contentEncoding)
  return {
    id,
    routingKey: topic,
    content: Buffer.isBuffer(payload)
      ? payload
      : Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength),
    properties: {
      mandatory: true,
      persistent: true,
      messageId: id,
      type,
      correlationId,
      contentType: contentType === '' ? undefined : contentType,
      contentEncoding,
      // AMQP counts seconds.
      timestamp: Math.floor(createdAt.getTime() / 1000),
      headers: key === undefined ? headers : { ...headers, [KEY_HEADER]: key },
    },
  }
}

function checkShortString(id: string, name: string, value: string | undefined): void {
  if (value === undefined) return
  // A UTF-16 code unit takes at most three bytes.
  if (value.length * 3 > SHORT_STRING_BYTES && Buffer.byteLength(value) > SHORT_STRING_BYTES) {
    throw new PermanentError(
      `Message ${oneLine(id)}: its ${name} has ${Buffer.byteLength(value)} bytes in UTF-8; AMQP allows ${SHORT_STRING_BYTES}. Publish it with a ` +
        'shorter one.',
    )
  }
  // The text would arrive changed, and the broker's answers could not be matched to the message.
  if (!value.isWellFormed()) {
    throw new PermanentError(
      `Message ${oneLine(id)}: its ${name} contains a lone surrogate, so it cannot be encoded as UTF-8. Remove the surrogate.`,
    )
  }
}
