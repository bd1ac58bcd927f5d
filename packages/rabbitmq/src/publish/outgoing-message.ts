import { PermanentError, type OutboxMessage } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'

export const KEY_HEADER = 'txbox-key'
/** The time of creation in RFC 3339, with milliseconds: the property of AMQP has whole seconds. */
export const TIME_HEADER = 'txbox-time'

/** Headers by which RabbitMQ would send copies elsewhere. It closes the channel if their values are no lists. */
const OBEYED_HEADERS = ['CC', 'BCC'] as const

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
  if (key?.isWellFormed() === false) throw notUnicode(id, 'its key contains')
  checkHeaders(id, headers)
  if (Number.isNaN(createdAt.getTime())) {
    throw new PermanentError(
      `Message ${oneLine(id)} cannot be encoded in AMQP: its time of creation is no valid date.`,
    )
  }
  const time = createdAt.toISOString()
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
      headers:
        key === undefined
          ? { ...headers, [TIME_HEADER]: time }
          : { ...headers, [KEY_HEADER]: key, [TIME_HEADER]: time },
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
  // The broker's answers could not be matched to the message.
  if (!value.isWellFormed()) throw notUnicode(id, `its ${name} contains`)
}

function checkHeaders(id: string, headers: OutboxMessage['headers']): void {
  for (const name of OBEYED_HEADERS) {
    if (!Object.hasOwn(headers, name)) continue
    throw new PermanentError(
      `Message ${oneLine(id)} has a header '${name}', which RabbitMQ obeys: it would send copies to other routing keys. Give ` +
        'the header another name.',
    )
  }
  for (const name in headers) {
    if (!name.isWellFormed()) throw notUnicode(id, `its header '${oneLine(name)}' has a name that contains`)
    const value: unknown = headers[name]
    if (typeof value !== 'string') {
      throw new PermanentError(
        `Message ${oneLine(id)} has a header '${oneLine(name)}' whose value is no text. Make the value a string.`,
      )
    }
    if (!value.isWellFormed()) {
      throw notUnicode(id, `its header '${oneLine(name)}' has a value that contains`)
    }
  }
}

/** A text with a lone surrogate would arrive changed. */
function notUnicode(id: string, what: string): PermanentError {
  return new PermanentError(
    `Message ${oneLine(id)}: ${what} a lone surrogate, so it cannot be encoded as UTF-8. Remove the surrogate.`,
  )
}
