import { PermanentError, type OutboxMessage } from '@txbox/core'
import { nameOf, oneLine } from '@txbox/core/internal'

/** The headers that carry fields of a message, as in every package of txbox. Kafka has fields of its own for key and time. */
export const WIRE_HEADERS = {
  id: 'txbox-id',
  type: 'txbox-type',
  correlationId: 'txbox-correlation-id',
  contentType: 'content-type',
  contentEncoding: 'content-encoding',
  /** A topic may replace the time of a record by the time at which Kafka stores the record. */
  time: 'txbox-time',
} as const

/** The names that Kafka gives to topics. */
const TOPIC = /^[\w.-]{1,249}$/
const LONGEST_TOPIC = 249

/** The bytes of a record beside key, value and headers, and the bytes of a header beside name and value, at most. */
const RECORD_BYTES = 40
const HEADER_BYTES = 10

/** A message in the form in which it is sent to Kafka. Each resend has the same form. */
export interface OutgoingRecord {
  readonly topic: string
  readonly key: Buffer | undefined
  readonly value: Buffer
  readonly headers: ReadonlyMap<Buffer, Buffer>
  /** Milliseconds since 1970. */
  readonly timestamp: number
  /** The size of the record in a batch, a little too large rather than too small. */
  readonly bytes: number
}

/**
 * Returns the record of a message. A header of the message that has the name of a field comes before the field, because the last
 * header of a name counts for most readers.
 *
 * @throws {PermanentError} when Kafka cannot carry the message unchanged: each attempt would fail.
 */
export function outgoingRecord(
  message: OutboxMessage,
  topic: string,
  maxMessageBytes: number,
): OutgoingRecord {
  const { id, key, payload, createdAt } = message
  if (payload.byteLength > maxMessageBytes) {
    throw refusal(
      id,
      `its payload has ${payload.byteLength} bytes; 'maxMessageBytes' is ${maxMessageBytes}. Store the data elsewhere and publish a ` +
        "reference to it, or raise both that option and the topic's max.message.bytes",
    )
  }
  checkTopic(id, topic)
  if (key?.isWellFormed() === false) throw notUnicode(id, 'its key contains')
  if (Number.isNaN(createdAt.getTime())) throw refusal(id, 'its time of creation is no valid date')
  const keyBytes = key === undefined ? undefined : Buffer.from(key)
  const value = Buffer.isBuffer(payload)
    ? payload
    : Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength)
  const headers = recordHeaders(message)
  let bytes = RECORD_BYTES + (keyBytes?.byteLength ?? 0) + value.byteLength
  for (const [name, text] of headers) bytes += HEADER_BYTES + name.byteLength + text.byteLength
  return { topic, key: keyBytes, value, headers, timestamp: createdAt.getTime(), bytes }
}

function checkTopic(id: string, topic: string): void {
  if (TOPIC.test(topic) && topic !== '.' && topic !== '..') return
  const why =
    topic.length > LONGEST_TOPIC
      ? `has ${topic.length} characters; Kafka allows ${LONGEST_TOPIC}`
      : 'is no name of a topic of Kafka, which may have letters, digits, dots, underscores and hyphens'
  throw refusal(
    id,
    `its topic '${oneLine(topic, 100)}' ${why}. Publish it to another topic, or map the topic by the option 'topic'`,
  )
}

function recordHeaders(message: OutboxMessage): ReadonlyMap<Buffer, Buffer> {
  const { id, type, correlationId, contentType, contentEncoding, createdAt } = message
  const headers = new Map<Buffer, Buffer>()
  for (const name in message.headers) {
    if (!Object.hasOwn(message.headers, name)) continue
    const value: unknown = message.headers[name]
    if (!name.isWellFormed()) throw notUnicode(id, `its header '${oneLine(name)}' has a name that contains`)
    if (typeof value !== 'string') {
      throw refusal(id, `its header '${oneLine(name)}' must be text, not ${nameOf(value)}`)
    }
    if (!value.isWellFormed()) throw notUnicode(id, `its header '${oneLine(name)}' has a value that contains`)
    // The key of the map is a new buffer: a header of the message does not replace another one of the same name.
    headers.set(Buffer.from(name), Buffer.from(value))
  }
  const fields: readonly (readonly [string, string, string | undefined])[] = [
    ['id', WIRE_HEADERS.id, id],
    ['type', WIRE_HEADERS.type, type],
    ['correlation id', WIRE_HEADERS.correlationId, correlationId],
    ['content type', WIRE_HEADERS.contentType, contentType === '' ? undefined : contentType],
    ['content encoding', WIRE_HEADERS.contentEncoding, contentEncoding],
    ['time', WIRE_HEADERS.time, createdAt.toISOString()],
  ]
  for (const [name, header, value] of fields) {
    if (value === undefined) continue
    if (!value.isWellFormed()) throw notUnicode(id, `its ${name} contains`)
    headers.set(Buffer.from(header), Buffer.from(value))
  }
  return headers
}

/** A text with a lone surrogate would arrive changed. */
function notUnicode(id: string, what: string): PermanentError {
  return refusal(id, `${what} a lone surrogate, so it cannot be encoded as UTF-8. Remove the surrogate`)
}

function refusal(id: string, what: string): PermanentError {
  return new PermanentError(`Message ${oneLine(id)} cannot be published to Kafka: ${what}.`)
}
