import { InvalidMessageError, type InboxMessage, type MessageIdentity } from '@txbox/core'
import { decodePayload, nameOf, oneLine, payloadForm } from '@txbox/core/internal'
import { WIRE_FIELDS } from '../publish/outgoing-entry.ts'

/** An entry of a stream as clients give it: of node-redis with its fields as an object, of ioredis as a list of id and fields. */
export type RedisStreamEntry =
  | { readonly id: unknown; readonly message: unknown }
  | readonly [id: unknown, fields: readonly unknown[]]

/** The id of an entry in its stream, and the bytes of its fields by their names. Of several fields of a name, the last one counts. */
export interface EntryFields {
  readonly entryId: string
  readonly fields: ReadonlyMap<string, Buffer>
}

/** A date and a time in RFC 3339. */
const RFC_3339 = /^\d{4}-\d\d-\d\dt\d\d:\d\d:\d\d(\.\d+)?(z|[+-]\d\d:\d\d)$/i

/**
 * Converts an entry to a message for the inbox. The client must give bytes: in node-redis
 * `client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer })`, in ioredis the methods whose names end in `Buffer`.
 *
 * - `id`, `type`, `correlationId` from the fields of these names; `time` from the field `time`, or else from the id of the entry.
 * - `headers` from the field `headers`, a JSON object.
 * - `payload`: parsed, when the field `content-type` is JSON or missing; text, when it is `text/…`, in the charset that it names or else
 *   UTF-8; otherwise the bytes, as a `Uint8Array` on the entry's memory. `P` is not checked.
 *
 * @throws {InvalidMessageError} for an entry of texts, without a field `id` or `payload`, with headers that are no JSON object of texts,
 *   for a payload that is not what its content type says, and for JSON or text that is compressed. The same entry would fail again.
 */
export function fromRedis<P = unknown>(entry: RedisStreamEntry): InboxMessage<P> {
  const fields = entryFields(entry)
  if ((textIn(fields.fields, WIRE_FIELDS.id) ?? '') === '') {
    throw new InvalidMessageError(
      `The entry ${oneLine(fields.entryId, 60)} has no message id: its field 'id' must be non-empty text. Make the producer set the field to ` +
        'the same value in every resend, or pass on a message with an id that you derive from the content.',
    )
  }
  return messageOf<P>(fields)
}

/** Reads an entry of any client. @throws {InvalidMessageError} for anything else, and for texts. */
export function entryFields(entry: unknown): EntryFields {
  const [id, given] = Array.isArray(entry)
    ? [entry[0] as unknown, entry[1] as unknown]
    : typeof entry === 'object' && entry !== null
      ? [Reflect.get(entry, 'id') as unknown, Reflect.get(entry, 'message') as unknown]
      : []
  const list = listOf(given)
  if (list === undefined) {
    throw new InvalidMessageError(
      `fromRedis: expected an entry of a stream, as { id, message } or [id, fields], not ${nameOf(entry)}.`,
    )
  }
  const fields = new Map<string, Buffer>()
  for (let n = 0; n < list.length; n += 2) {
    const value = list[n + 1]
    if (!(value instanceof Uint8Array)) {
      throw new InvalidMessageError(
        `fromRedis: the fields of the entry must be bytes, not ${nameOf(value)}, because text would change a payload. Read with ` +
          'withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer }) in node-redis, and with xreadgroupBuffer in ioredis.',
      )
    }
    fields.set(String(list[n]), bufferOf(value))
  }
  return { entryId: String(id), fields }
}

/** Returns names and values in turn. */
function listOf(given: unknown): readonly unknown[] | undefined {
  if (Array.isArray(given)) return given as readonly unknown[]
  if (given instanceof Map) return [...(given as Map<unknown, unknown>)].flat()
  return typeof given === 'object' && given !== null ? Object.entries(given).flat() : undefined
}

/** Without a copy, and without another object for what is a buffer already: there are some of them for each message. */
function bufferOf(value: Uint8Array): Buffer {
  return Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.byteLength)
}

/**
 * Converts the fields of an entry to a message. Without a field `id`, the id of the message is empty.
 *
 * @throws {InvalidMessageError} as `fromRedis`.
 */
export function messageOf<P>(entry: EntryFields): InboxMessage<P> {
  const identity = identityOf(entry)
  return { ...identity, headers: headersOf(entry), payload: payloadOf(entry, identity.id) as P }
}

/** Reads what a message has beside its headers and payload. Never throws. */
export function identityOf({ entryId, fields }: EntryFields): MessageIdentity {
  const type = textIn(fields, WIRE_FIELDS.type)
  const correlationId = textIn(fields, WIRE_FIELDS.correlationId)
  const time = sentTimeOf(textIn(fields, WIRE_FIELDS.time)) ?? addedTimeOf(entryId)
  return {
    id: textIn(fields, WIRE_FIELDS.id) ?? '',
    ...(type === undefined ? {} : { type }),
    ...(correlationId === undefined ? {} : { correlationId }),
    ...(time === undefined ? {} : { time }),
  }
}

export function textIn(fields: ReadonlyMap<string, Buffer>, name: string): string | undefined {
  return fields.get(name)?.toString('utf8')
}

/** @throws {InvalidMessageError} unless the headers are an object of texts, or missing. */
export function headersOf({ entryId, fields }: EntryFields): Readonly<Record<string, string>> {
  const text = textIn(fields, WIRE_FIELDS.headers)
  if (text === undefined) return {}
  try {
    const headers: unknown = JSON.parse(text)
    const isObject = typeof headers === 'object' && headers !== null && !Array.isArray(headers)
    if (isObject && Object.values(headers).every((value) => typeof value === 'string')) {
      return headers as Record<string, string>
    }
  } catch {
    // The parser's error would quote the headers.
  }
  throw new InvalidMessageError(
    `The field 'headers' of the entry ${oneLine(entryId, 60)} is no JSON object of texts. Make the producer leave the field out, or write ` +
      'such an object.',
  )
}

function payloadOf({ entryId, fields }: EntryFields, id: string): unknown {
  const value = fields.get(WIRE_FIELDS.payload)
  const name = id === '' ? `of the entry ${entryId}` : id
  if (value === undefined) {
    throw new InvalidMessageError(
      `Message ${oneLine(name)} has no field 'payload'. Make the producer add the field.`,
    )
  }
  const contentType = textIn(fields, WIRE_FIELDS.contentType) ?? ''
  // A view, without a copy: the payload is documented as a Uint8Array, not as a Buffer.
  const payload = new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
  if (payloadForm(contentType) === 'bytes') return payload
  const encoding = textIn(fields, WIRE_FIELDS.contentEncoding) ?? 'identity'
  if (encoding !== 'identity') {
    throw new InvalidMessageError(
      `Message ${oneLine(name)} has the content encoding '${oneLine(encoding)}'. Decode its payload, and pass on an entry with that payload and ` +
        'without the encoding.',
    )
  }
  return decodePayload({ id: name, contentType, payload }, 'any')
}

function sentTimeOf(text: string | undefined): Date | undefined {
  return text !== undefined && RFC_3339.test(text) ? validDate(Date.parse(text.toUpperCase())) : undefined
}

/** The usual id of an entry begins with the milliseconds at which the server has added the entry. */
function addedTimeOf(entryId: string): Date | undefined {
  const ms = /^(\d{1,15})-\d+$/.exec(entryId)?.[1]
  return ms === undefined ? undefined : validDate(Number(ms))
}

function validDate(ms: number): Date | undefined {
  const date = new Date(ms)
  return Number.isNaN(date.getTime()) ? undefined : date
}
