import { PermanentError, type OutboxMessage } from '@txbox/core'
import { nameOf, oneLine } from '@txbox/core/internal'
import { bodyOf, isSendableText } from './message-body.ts'
import { sqsNameOf } from './sqs-names.ts'

/** The attributes that carry fields of a message. SQS and SNS allow ten attributes. */
export const WIRE_ATTRIBUTES = {
  id: 'txbox-id',
  type: 'txbox-type',
  key: 'txbox-key',
  correlationId: 'txbox-correlation-id',
  contentType: 'content-type',
  contentEncoding: 'content-encoding',
  time: 'txbox-time',
  /** How the payload is written in the body, if it is not the body itself. */
  encoding: 'txbox-encoding',
  /** The headers, as JSON. */
  headers: 'headers',
  /** The fields that cannot be attributes of their own, by the names above, as JSON. */
  fields: 'txbox-fields',
} as const

export const MOST_ATTRIBUTES = 10
/** The fields that move to `txbox-fields` when there are too many attributes, the first one first. */
const MOVABLE = [WIRE_ATTRIBUTES.contentEncoding, WIRE_ATTRIBUTES.time, WIRE_ATTRIBUTES.correlationId]

export interface MessageAttribute {
  readonly DataType: string
  readonly StringValue?: string | undefined
  readonly BinaryValue?: Uint8Array | undefined
}

/** A message in the form in which it is sent to SQS or SNS. Each resend has the same form. */
export interface OutgoingMessage {
  readonly body: string
  readonly attributes: Readonly<Record<string, MessageAttribute>>
  /** As SQS and SNS count: the body, and names, types and values of the attributes. */
  readonly bytes: number
  /** The ordering key as the name of a message group. */
  readonly group: string | undefined
  /** For FIFO: the group of a message without a key, in which it is alone. */
  readonly ownGroup: string
  readonly deduplicationId: string
}

export interface OutgoingSettings {
  readonly maxMessageBytes: number
  /** The names of headers that become attributes of their own. */
  readonly attributes: readonly string[]
}

/** @throws {PermanentError} when the message cannot be carried unchanged: each attempt would fail. */
export function outgoingMessage(message: OutboxMessage, settings: OutgoingSettings): OutgoingMessage {
  const { id, key, payload, createdAt } = message
  const { maxMessageBytes } = settings
  if (payload.byteLength > maxMessageBytes) {
    throw refusal(
      id,
      `its payload has ${payload.byteLength} bytes; 'maxMessageBytes' is ${maxMessageBytes}. Store the data elsewhere and publish a ` +
        'reference to it',
    )
  }
  if (Number.isNaN(createdAt.getTime())) throw refusal(id, 'its time of creation is no valid date')
  const { body, encoding } = bodyOf(payload)
  const attributes = attributesOf(message, encoding, settings.attributes)
  return {
    body,
    attributes,
    bytes: Buffer.byteLength(body) + bytesOfAttributes(attributes),
    group: key === undefined ? undefined : sqsNameOf(key),
    ownGroup: sqsNameOf(id),
    deduplicationId: sqsNameOf(message.headers['deduplication-id'] ?? id),
  }
}

/** Returns how much SQS and SNS count for attributes. */
export function bytesOfAttributes(attributes: Readonly<Record<string, MessageAttribute>>): number {
  let bytes = 0
  for (const [name, { DataType, StringValue, BinaryValue }] of Object.entries(attributes)) {
    bytes += Buffer.byteLength(name) + Buffer.byteLength(DataType)
    bytes += Buffer.byteLength(StringValue ?? '') + (BinaryValue?.byteLength ?? 0)
  }
  return bytes
}

function attributesOf(
  message: OutboxMessage,
  encoding: string | undefined,
  chosen: readonly string[],
): Readonly<Record<string, MessageAttribute>> {
  const { own, others } = partedHeaders(message, chosen)
  const fields = fieldsOf(message, encoding)
  const left = new Map([...fields].filter(([, value]) => !isSendableText(value)))
  for (const name of left.keys()) fields.delete(name)
  const count = (): number => own.size + fields.size + (others.size > 0 ? 1 : 0) + (left.size > 0 ? 1 : 0)
  for (const name of MOVABLE) {
    if (count() <= MOST_ATTRIBUTES) break
    const value = fields.get(name)
    if (value === undefined) continue
    left.set(name, value)
    fields.delete(name)
  }
  if (left.size > 0) fields.set(WIRE_ATTRIBUTES.fields, asciiJson(left))
  if (others.size > 0) fields.set(WIRE_ATTRIBUTES.headers, asciiJson(others))
  const all = [...fields, ...own].map(
    ([name, value]) => [name, { DataType: 'String', StringValue: value }] as const,
  )
  return Object.fromEntries(all)
}

function fieldsOf(message: OutboxMessage, encoding: string | undefined): Map<string, string> {
  const { id, type, key, correlationId, contentType, contentEncoding, createdAt } = message
  const fields: readonly (readonly [string, string | undefined])[] = [
    [WIRE_ATTRIBUTES.id, id],
    [WIRE_ATTRIBUTES.type, type],
    [WIRE_ATTRIBUTES.key, key],
    [WIRE_ATTRIBUTES.contentType, contentType === '' ? undefined : contentType],
    [WIRE_ATTRIBUTES.encoding, encoding],
    [WIRE_ATTRIBUTES.correlationId, correlationId],
    [WIRE_ATTRIBUTES.time, createdAt.toISOString()],
    [WIRE_ATTRIBUTES.contentEncoding, contentEncoding],
  ]
  return new Map(fields.filter((field): field is readonly [string, string] => field[1] !== undefined))
}

/** @throws {PermanentError} for a header that is no text. */
function partedHeaders(
  { id, headers }: OutboxMessage,
  chosen: readonly string[],
): { readonly own: ReadonlyMap<string, string>; readonly others: ReadonlyMap<string, string> } {
  const [own, others] = [new Map<string, string>(), new Map<string, string>()]
  for (const [name, value] of Object.entries(headers as Readonly<Record<string, unknown>>)) {
    if (typeof value !== 'string') {
      throw refusal(id, `its header '${oneLine(name, 100)}' must be text, not ${nameOf(value)}`)
    }
    const isOwn = chosen.includes(name) && isSendableText(value)
    ;(isOwn ? own : others).set(name, value)
  }
  return { own, others }
}

/** Texts in JSON may hold what XML has not, such as control characters and lone surrogates, as escapes. */
function asciiJson(entries: ReadonlyMap<string, string>): string {
  // An object would move names that are numbers to the front, and treat `__proto__` in its own way.
  const json = `{${[...entries].map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(',')}}`
  return json.replaceAll(
    /[\u007F-\uFFFF]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Returns the error of a message that cannot be published by any attempt. */
export function refusal(id: string, what: string): PermanentError {
  return new PermanentError(`Message ${oneLine(id)} cannot be published to SQS: ${what}.`)
}
