import { InvalidMessageError, type InboxMessage, type MessageIdentity } from '@txbox/core'
import { decodePayload, nameOf, oneLine, payloadForm, withCloudEvent } from '@txbox/core/internal'
import { WIRE_HEADERS } from '../publish/outgoing-record.ts'

/** A record of a Kafka client, such as the `Message` of `@platformatic/kafka` or the `KafkaMessage` of kafkajs. */
export interface KafkaRecord {
  /** The bytes; `null` for a tombstone, as for a compacted topic. */
  readonly value: Uint8Array | null
  /** A map, or an object in which several headers of one name are a list. */
  readonly headers?: unknown
  /** Milliseconds since 1970. */
  readonly timestamp?: unknown
}

/** A date and a time in RFC 3339. */
const RFC_3339 = /^\d{4}-\d\d-\d\dt\d\d:\d\d:\d\d(\.\d+)?(z|[+-]\d\d:\d\d)$/i

/** The prefix of CloudEvents in the headers of a record. */
const CLOUD_EVENTS = ['ce_']
/** A header that only Debezium writes, with the files of docs/debezium.md: such a record has its headers in one header, as JSON. */
const ROUTED = 'txbox-topic'
const ROUTED_HEADERS = 'headers'
const ROUTED_FIELDS: ReadonlySet<string> = new Set([ROUTED, 'txbox-key'])

const FIELDS: ReadonlySet<string> = new Set(Object.values(WIRE_HEADERS))

/**
 * Converts a record to a message for the inbox.
 *
 * - `id`, `type`, `correlationId` from the headers `txbox-id`, `txbox-type` and `txbox-correlation-id`; `time` from `txbox-time`, or
 *   else the timestamp of the record.
 * - A CloudEvent in binary mode, which has a header `ce_specversion`: id, source, type and time are those of the event; its other
 *   attributes are headers without `ce_`.
 * - `headers`: the others, as text in UTF-8. Of several headers of one name, the last one counts. Headers without a value are left out.
 *   A record that Debezium has published as docs/debezium.md says has all of them in one header, which is opened.
 * - `payload`: parsed, when the header `content-type` is JSON or missing; text, when it is `text/…`, in the charset that it names or else
 *   UTF-8; otherwise the bytes, as a `Uint8Array` on the record's memory; `null` for a record without a value. `P` is not checked.
 *
 * @throws {InvalidMessageError} without a header `txbox-id`, for a value that is not what its content type says, and for JSON or text that
 *   is compressed. The same record would fail again.
 */
export function fromKafka<P = unknown>(record: KafkaRecord): InboxMessage<P> {
  const { value } = (record ?? {}) as Partial<KafkaRecord>
  if (value !== null && !(value instanceof Uint8Array)) {
    throw new InvalidMessageError(
      `fromKafka: expected a record whose 'value' is a Uint8Array or null, not ${nameOf(value)}. Let the consumer deliver bytes.`,
    )
  }
  const { identity, fields } = readRecord(record)
  const { id } = identity
  if (id === '') {
    throw new InvalidMessageError(
      `The record has no message id: its header '${WIRE_HEADERS.id}' must be non-empty text. Make the producer set the header to the same ` +
        'value in every resend, or pass on a message with an id that you derive from the content.',
    )
  }
  return { ...identity, payload: payloadOf(id, value, fields) as P }
}

/** A record apart from its payload. */
export interface ReadRecord {
  /** The id is empty if the record has none. */
  readonly identity: MessageIdentity
  /** The headers that carry fields of the message, by their names. */
  readonly fields: ReadonlyMap<string, string>
}

export function readRecord({ headers, timestamp }: KafkaRecord): ReadRecord {
  return readEntries(entriesOf(headers), timestamp)
}

/** @param headers in their order, a name as often as it occurs. A header without a value is left out. */
export function readHeaders(
  headers: Iterable<readonly [name: unknown, value: unknown]>,
  timestamp: unknown,
): ReadRecord {
  const entries: [string, string][] = []
  for (const [name, value] of headers) {
    const text = textOf(value)
    if (text !== undefined) entries.push([textOf(name) ?? '', text])
  }
  return readEntries(entries, timestamp)
}

function readEntries(entries: readonly (readonly [string, string])[], timestamp: unknown): ReadRecord {
  const { fields, headers } = parted(opened(entries))
  const type = fields.get(WIRE_HEADERS.type)
  const correlationId = fields.get(WIRE_HEADERS.correlationId)
  const time = sentTimeOf(fields.get(WIRE_HEADERS.time)) ?? timeOf(timestamp)
  const identity = {
    id: fields.get(WIRE_HEADERS.id) ?? '',
    headers,
    ...(type === undefined ? {} : { type }),
    ...(correlationId === undefined ? {} : { correlationId }),
    ...(time === undefined ? {} : { time }),
  }
  return { identity: withCloudEvent(identity, CLOUD_EVENTS), fields }
}

/** Decodes the payload of a record. @throws {InvalidMessageError} when the value is not what its content type says. */
export function payloadOf(
  id: string,
  value: Uint8Array | null,
  fields: ReadonlyMap<string, string>,
): unknown {
  if (value === null) return null
  const contentType = fields.get(WIRE_HEADERS.contentType) ?? ''
  // A view, without a copy: the payload is documented as a Uint8Array, not as a Buffer.
  const payload = new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
  if (payloadForm(contentType) === 'bytes') return payload
  const encoding = fields.get(WIRE_HEADERS.contentEncoding) ?? 'identity'
  if (encoding !== 'identity') {
    throw new InvalidMessageError(
      `Message ${oneLine(id)} has the content encoding '${oneLine(encoding)}'. Decode its value, and pass on a record with that value ` +
        'and without the encoding.',
    )
  }
  return decodePayload({ id, contentType, payload }, 'any')
}

/** The headers in their order, a name as often as it occurs. */
function entriesOf(headers: unknown): readonly (readonly [string, string])[] {
  if (typeof headers !== 'object' || headers === null) return []
  const entries: readonly (readonly unknown[])[] =
    headers instanceof Map ? [...(headers as Map<unknown, unknown>)] : Object.entries(headers)
  return entries.flatMap(([name, value]) =>
    (Array.isArray(value) ? (value as unknown[]) : [value]).flatMap((each) => {
      const text = textOf(each)
      return text === undefined ? [] : [[textOf(name) ?? '', text] as const]
    }),
  )
}

/** Takes the headers of a message that Debezium has published out of the header that has all of them. */
function opened(entries: readonly (readonly [string, string])[]): readonly (readonly [string, string])[] {
  if (!entries.some(([name]) => name === ROUTED)) return entries
  return entries.flatMap(([name, text]) => {
    if (ROUTED_FIELDS.has(name)) return []
    return (name === ROUTED_HEADERS ? textsIn(text) : undefined) ?? [[name, text] as const]
  })
}

/** The texts of a JSON object; undefined for anything else. */
function textsIn(json: string): readonly (readonly [string, string])[] | undefined {
  try {
    const value: unknown = JSON.parse(json)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    return Object.entries(value).flatMap(([name, text]) => (typeof text === 'string' ? [[name, text]] : []))
  } catch {
    return undefined
  }
}

/** Takes the fields of the message out of the headers: of several headers of such a name, the last one is the field. */
function parted(entries: readonly (readonly [string, string])[]): {
  readonly fields: ReadonlyMap<string, string>
  readonly headers: Readonly<Record<string, string>>
} {
  const fields = new Map<string, string>()
  const headers: (readonly [string, string])[] = []
  for (const entry of entries) {
    const [name, text] = entry
    if (!FIELDS.has(name)) {
      headers.push(entry)
      continue
    }
    const before = fields.get(name)
    if (before !== undefined) headers.push([name, before])
    fields.set(name, text)
  }
  return { fields, headers: Object.fromEntries(headers) }
}

function textOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  if (!(value instanceof Uint8Array)) return undefined
  if (Buffer.isBuffer(value)) return value.toString('utf8')
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('utf8')
}

function sentTimeOf(text: string | undefined): Date | undefined {
  return text !== undefined && RFC_3339.test(text) ? validDate(Date.parse(text.toUpperCase())) : undefined
}

/** Clients give the timestamp as a number, a bigint or text. */
function timeOf(timestamp: unknown): Date | undefined {
  const isNumeric = ['number', 'bigint'].includes(typeof timestamp) || /^\d+$/.test(String(timestamp))
  return isNumeric && Number(timestamp) >= 0 ? validDate(Number(timestamp)) : undefined
}

function validDate(ms: number): Date | undefined {
  const date = new Date(ms)
  return Number.isNaN(date.getTime()) ? undefined : date
}
