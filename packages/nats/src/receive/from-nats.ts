import { InvalidMessageError, type InboxMessage, type MessageIdentity } from '@txbox/core'
import {
  cloudEventIn,
  decodePayload,
  identityOfCloudEvent,
  nameOf,
  oneLine,
  payloadForm,
} from '@txbox/core/internal'
import { DEDUPLICATION_HEADER, WIRE_HEADERS, isServerHeader } from '../connection/wire-headers.ts'

/** A message of a NATS client, such as the `JsMsg` of `@nats-io/jetstream`. */
export interface NatsMessage {
  readonly data: Uint8Array
  /** The names and values; a name may have several. */
  readonly headers?: Iterable<readonly [string, readonly string[]]> | undefined
  /** When JetStream has stored the message. */
  readonly time?: unknown
}

/** The parts of a message that its headers carry. */
export interface ReadHeaders {
  /** Without an id, the message has none of txbox. */
  readonly identity: Omit<MessageIdentity, 'id'> & { readonly id?: string }
  readonly key: string | undefined
  readonly contentType: string | undefined
  readonly contentEncoding: string | undefined
  /** The headers of the message as they were received: an event in binary mode has its attributes here. */
  readonly received: Readonly<Record<string, string>>
}

/** A date and a time in RFC 3339. */
const RFC_3339 = /^\d{4}-\d\d-\d\dt\d\d:\d\d:\d\d(\.\d+)?(z|[+-]\d\d:\d\d)$/i

const FIELDS: ReadonlySet<string> = new Set(Object.values(WIRE_HEADERS))

/** The prefix of CloudEvents in the headers of a message. */
const CLOUD_EVENTS = ['ce-']
const EVENT_MARK = 'ce-specversion'
const ATTRIBUTE = /^ce-[a-z\d]+$/i
/** The content type of an event in structured mode: that of its data is in the payload. */
const STRUCTURED = /^application\/cloudevents/i

/**
 * Converts a message of NATS to a message for the inbox.
 *
 * - `id`, `type`, `correlationId` from the headers `txbox-id` (or else `Nats-Msg-Id`), `txbox-type` and `txbox-correlation-id`; `time` from
 *   `txbox-time`, or else when JetStream stored the message.
 * - A CloudEvent in binary mode, which has a header `ce-specversion`: id, source, type and time are those of the event, and its
 *   `datacontenttype` is the content type; its other attributes are headers without `ce-`. Values are percent-decoded. The case of the
 *   names does not matter.
 * - `headers`: the others. Of several values of a name, the last one counts. Headers that begin with `Nats-` are left out, because a server
 *   would obey them if the message were published again.
 * - `payload`: parsed, when the header `content-type` is JSON or missing; text, when it is `text/…`, in the charset that it names or else
 *   UTF-8; otherwise the bytes, as a `Uint8Array` on the message's memory. `P` is not checked.
 *
 * @throws {InvalidMessageError} without a header `txbox-id`, `Nats-Msg-Id` or that of an event, for an event with an attribute that is no
 *   text, for data that is not what its content type says, and for JSON or text that is compressed. The same message would fail again.
 */
export function fromNats<P = unknown>(message: NatsMessage): InboxMessage<P> {
  const { data } = (message ?? {}) as Partial<NatsMessage>
  if (!(data instanceof Uint8Array)) {
    throw new InvalidMessageError(
      `fromNats: expected a message whose 'data' is a Uint8Array, not ${nameOf(data)}.`,
    )
  }
  const read = withEvent(readHeaders(message))
  const { id } = read.identity
  if (id === undefined) {
    throw new InvalidMessageError(
      `The message has no id: its header '${WIRE_HEADERS.id}' or '${DEDUPLICATION_HEADER}' must be non-empty text. Make the producer set the header to the same value in ` +
        'every resend, or pass on a message with an id that you derive from the content.',
    )
  }
  return messageOf<P>(message, read, id)
}

/** @throws {InvalidMessageError} for data that is not what its content type says. */
export function messageOf<P>({ data }: NatsMessage, read: ReadHeaders, id: string): InboxMessage<P> {
  return { ...read.identity, id, payload: payloadOf(id === '' ? 'without an id' : id, data, read) as P }
}

function payloadOf(id: string, data: Uint8Array, read: ReadHeaders): unknown {
  const { contentType = '', contentEncoding = 'identity' } = read
  // A view, without a copy: the payload is documented as a Uint8Array, not as a Buffer.
  const payload = new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
  if (payloadForm(contentType) === 'bytes') return payload
  if (contentEncoding !== 'identity') {
    throw new InvalidMessageError(
      `Message ${oneLine(id)} has the content encoding '${oneLine(contentEncoding)}'. Decode its data, and pass on a message with that ` +
        'data and without the encoding.',
    )
  }
  return decodePayload({ id, contentType, payload }, 'any')
}

/** Reads the headers as they were received, also those of an event. */
export function readHeaders({ headers: given = [], time: storedAt }: NatsMessage): ReadHeaders {
  const fields = new Map<string, string>()
  const headers: [string, string][] = []
  let deduplicationId = ''
  for (const [name, values] of given) {
    const last = values.at(-1)
    if (last === undefined) continue
    if (name === DEDUPLICATION_HEADER) deduplicationId = last
    if (isServerHeader(name)) continue
    if (!FIELDS.has(name)) headers.push([name, last])
    else {
      fields.set(name, last)
      // A header of the message has the name of a field.
      const own = values.at(-2)
      if (own !== undefined) headers.push([name, own])
    }
  }
  const id = [fields.get(WIRE_HEADERS.id), deduplicationId].find((each) => each !== undefined && each !== '')
  const type = fields.get(WIRE_HEADERS.type)
  const correlationId = fields.get(WIRE_HEADERS.correlationId)
  const time = sentTimeOf(fields.get(WIRE_HEADERS.time)) ?? (isDate(storedAt) ? storedAt : undefined)
  const received = Object.fromEntries(headers)
  return {
    identity: {
      headers: received,
      ...(id === undefined ? {} : { id }),
      ...(type === undefined ? {} : { type }),
      ...(correlationId === undefined ? {} : { correlationId }),
      ...(time === undefined ? {} : { time }),
    },
    key: fields.get(WIRE_HEADERS.key),
    contentType: fields.get(WIRE_HEADERS.contentType),
    contentEncoding: fields.get(WIRE_HEADERS.contentEncoding),
    received,
  }
}

/**
 * Reads the CloudEvent in the headers.
 *
 * @returns the headers themselves if they hold no event.
 * @throws {InvalidMessageError} when an attribute is no text.
 */
export function withEvent(read: ReadHeaders): ReadHeaders {
  const names = Object.keys(read.received)
  if (!names.some((name) => name.toLowerCase() === EVENT_MARK)) return read
  const event = cloudEventIn(inLowerCase(read.received), CLOUD_EVENTS, { percentEncoded: true })
  if (event === undefined) return read
  const { attributes } = event
  const isStructured = STRUCTURED.test(read.contentType ?? '')
  return {
    ...read,
    identity: identityOfCloudEvent(read.identity, event),
    key: textOf(read.key) ?? attributes.get('partitionkey'),
    contentType: (isStructured ? undefined : textOf(attributes.get('datacontenttype'))) ?? read.contentType,
  }
}

/** Returns the headers with the names of attributes in lower case, because the binding ignores their case. */
function inLowerCase(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const named = Object.entries(headers).map(([name, value]) => [
    ATTRIBUTE.test(name) ? name.toLowerCase() : name,
    value,
  ])
  return Object.fromEntries(named) as Record<string, string>
}

function textOf(value: string | undefined): string | undefined {
  return value === '' ? undefined : value
}

function sentTimeOf(text: string | undefined): Date | undefined {
  const date = text !== undefined && RFC_3339.test(text) ? new Date(text.toUpperCase()) : undefined
  return isDate(date) ? date : undefined
}

function isDate(value: unknown): value is Date {
  return value instanceof Date && !Number.isNaN(value.getTime())
}
