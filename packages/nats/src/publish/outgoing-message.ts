import { PermanentError, type OutboxMessage } from '@txbox/core'
import { nameOf, oneLine } from '@txbox/core/internal'
import { MsgHdrsImpl, type MsgHdrs } from '@nats-io/transport-node'
import {
  DEDUPLICATION_HEADER,
  STREAM_HEADER,
  WIRE_HEADERS,
  isServerHeader,
} from '../connection/wire-headers.ts'

/** The client sends a subject in one line with its reply subject; a server closes the connection for a line above 4096 bytes. */
const SUBJECT_BYTES = 2000

/** JetStream refuses more. */
const HEADERS_BYTES = 65_535

/** The first line of the headers and the empty line at their end; what stands around a name and its value. */
const FRAME_BYTES = Buffer.byteLength('NATS/1.0\r\n\r\n')
const HEADER_FRAME_BYTES = Buffer.byteLength(': \r\n')

/** What NATS takes for the name of a header: visible ASCII characters without a colon. */
const HEADER_NAME = /^[!-9;-~]+$/

/** Subjects that servers obey or answer themselves, such as `$JS.API.STREAM.DELETE.orders`, and those of replies. */
const RESERVED_SUBJECT = /^(?:\$|_INBOX\.)/

export interface OutgoingLimits {
  readonly maxMessageBytes: number
  /** Only this stream may take the message. */
  readonly stream: string | undefined
}

/** A message in the form in which it is sent to NATS. Each resend has the same form. */
export interface OutgoingMessage {
  readonly subject: string
  readonly headers: MsgHdrs
  readonly payload: Uint8Array
  /** The size of payload and headers. */
  readonly bytes: number
}

/**
 * Returns the message in the form in which it is sent. A header of the message that has the name of a field comes before the field.
 *
 * @throws {PermanentError} when NATS cannot carry the message unchanged: each attempt would fail.
 */
export function outgoingMessage(
  message: OutboxMessage,
  subject: string,
  { maxMessageBytes, stream }: OutgoingLimits,
): OutgoingMessage {
  const { id, payload } = message
  checkSubject(id, subject)
  const headers = new HeaderValues(id)
  headers.addAll(message.headers)
  for (const [field, name, value] of fieldsOf(message)) headers.addField(field, name, value)
  // A dead letter has the id of its message, and one stream may take both: only a copy on the same subject is a resend.
  headers.addField('id', DEDUPLICATION_HEADER, `${id} ${subject}`)
  if (stream !== undefined) headers.addField('stream', STREAM_HEADER, stream)
  const { bytes } = headers
  if (bytes > HEADERS_BYTES) {
    throw refusal(
      id,
      `its headers have ${bytes} bytes; JetStream takes ${HEADERS_BYTES}. Move data to the payload`,
    )
  }
  if (bytes + payload.byteLength > maxMessageBytes) {
    throw refusal(
      id,
      `its payload has ${payload.byteLength} bytes; its ${bytes} bytes of headers leave ${Math.max(0, maxMessageBytes - bytes)} of the ` +
        `${maxMessageBytes} bytes that the server's max_payload and the option 'maxMessageBytes' allow. Store the data elsewhere and ` +
        'publish a reference to it, or raise both',
    )
  }
  return { subject, headers: headers.made(), payload, bytes: bytes + payload.byteLength }
}

function fieldsOf(
  message: OutboxMessage,
): readonly (readonly [field: string, header: string, value: string | undefined])[] {
  const { id, type, key, correlationId, contentType, contentEncoding, createdAt } = message
  if (Number.isNaN(createdAt.getTime())) throw refusal(id, 'its time of creation is no valid date')
  return [
    ['id', WIRE_HEADERS.id, id],
    ['type', WIRE_HEADERS.type, type],
    ['key', WIRE_HEADERS.key, key],
    ['correlation id', WIRE_HEADERS.correlationId, correlationId],
    ['content type', WIRE_HEADERS.contentType, contentType === '' ? undefined : contentType],
    ['content encoding', WIRE_HEADERS.contentEncoding, contentEncoding],
    ['time', WIRE_HEADERS.time, createdAt.toISOString()],
  ]
}

function checkSubject(id: string, subject: string): void {
  const why = flawOf(subject)
  if (why === undefined) return
  throw refusal(
    id,
    `its subject '${oneLine(subject, 100)}' ${why}. Publish it to another topic, or map the topic by the option 'subject'`,
  )
}

function flawOf(subject: string): string | undefined {
  if (subject === '' || subject.split('.').includes('')) return 'has an empty part between its dots'
  if (/[*>]/.test(subject)) return 'has a wildcard'
  if (/[\s\p{Cc}]/u.test(subject)) return 'has a space or a control character'
  if (!subject.isWellFormed()) return 'has a lone surrogate'
  if (RESERVED_SUBJECT.test(subject)) return 'is reserved: the server would obey the message'
  const bytes = Buffer.byteLength(subject)
  return bytes > SUBJECT_BYTES ? `has ${bytes} bytes; at most ${SUBJECT_BYTES} are sent` : undefined
}

/** The headers of one message, by their names. The values of a name keep their order. */
class HeaderValues {
  readonly #id: string
  readonly #values = new Map<string, string[]>()
  /** The size of the headers as they are sent. */
  bytes = FRAME_BYTES

  constructor(id: string) {
    this.#id = id
  }

  /** Adds the headers that the sender has set. */
  addAll(headers: OutboxMessage['headers']): void {
    for (const name in headers) {
      if (!Object.hasOwn(headers, name)) continue
      const value: unknown = headers[name]
      const shown = `its header '${oneLine(name)}'`
      if (!HEADER_NAME.test(name)) {
        throw refusal(this.#id, `${shown} needs a name of visible ASCII characters without a colon`)
      }
      if (isServerHeader(name)) {
        throw refusal(
          this.#id,
          `${shown} is reserved: NATS obeys headers that begin with 'Nats-'. Rename the header`,
        )
      }
      if (typeof value !== 'string') throw refusal(this.#id, `${shown} must be text, not ${nameOf(value)}`)
      this.#add(shown, name, value)
    }
  }

  addField(field: string, name: string, value: string | undefined): void {
    if (value !== undefined) this.#add(`its ${field}`, name, value)
  }

  made(): MsgHdrs {
    // A name such as `__proto__` is one like any other.
    const record: Record<string, string[]> = Object.assign(
      Object.create(null),
      Object.fromEntries(this.#values),
    )
    return MsgHdrsImpl.fromRecord(record)
  }

  #add(shown: string, name: string, value: string): void {
    if (/[\r\n]/.test(value))
      throw refusal(this.#id, `${shown} contains a line break, which NATS cannot carry`)
    if (value.trim() !== value) {
      throw refusal(this.#id, `${shown} begins or ends with white space, which NATS removes`)
    }
    if (!value.isWellFormed()) {
      throw refusal(this.#id, `${shown} contains a lone surrogate, so it cannot be encoded as UTF-8`)
    }
    this.bytes += HEADER_FRAME_BYTES + name.length + Buffer.byteLength(value)
    const values = this.#values.get(name)
    if (values === undefined) this.#values.set(name, [value])
    else values.push(value)
  }
}

function refusal(id: string, what: string): PermanentError {
  return new PermanentError(`Message ${oneLine(id)} cannot be published to NATS: ${what}.`)
}
