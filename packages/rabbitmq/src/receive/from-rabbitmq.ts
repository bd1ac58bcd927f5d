import { InvalidMessageError, type InboxMessage, type MessageIdentity } from '@txbox/core'
import { nameOf, propertyOf, withCloudEvent } from '@txbox/core/internal'
import { KEY_HEADER, TIME_HEADER } from '../publish/outgoing-message.ts'
import { COUNT_HEADERS } from './delivery-counts.ts'
import { deliveryPayload } from './delivery-payload.ts'

/** A delivery of an AMQP 0-9-1 client, such as amqplib's `ConsumeMessage` and `GetMessage`. */
export interface RabbitmqDelivery {
  readonly content: Uint8Array
  readonly properties: {
    readonly messageId?: unknown
    readonly correlationId?: unknown
    readonly type?: unknown
    readonly timestamp?: unknown
    readonly contentType?: unknown
    readonly contentEncoding?: unknown
    readonly headers?: unknown
  }
}

/** The two prefixes that the AMQP binding of CloudEvents 1.0 allows. */
const CLOUD_EVENTS = ['cloudEvents:', 'cloudEvents_']

/** A larger timestamp would be after the year 5138 in seconds: its producer has sent milliseconds. */
const MILLISECONDS_FROM = 1e11

/** A date and a time in RFC 3339. */
const RFC_3339 = /^\d{4}-\d\d-\d\dt\d\d:\d\d:\d\d(\.\d+)?(z|[+-]\d\d:\d\d)$/i

/**
 * Converts a delivery to a message for the inbox.
 *
 * - `id`, `correlationId`, `type` from the properties of these names (`message-id`, …).
 * - `time` from the header `txbox-time`, if it is a time in RFC 3339; otherwise from `timestamp`, which counts seconds (a value of 1e11
 *   or more is taken as milliseconds).
 * - `headers`: texts as they are, numbers and booleans as text. Nested, binary and null values are left out, such as
 *   `x-death`; so are `txbox-time` and `txbox-key`, in which `rabbitmqPublisher` sends fields of the message, and the numbers
 *   `x-delivery-count` and `x-acquired-count`, in which a quorum queue counts: another queue must not count on from them.
 * - `source` from the header `cloudEvents:source` or `cloudEvents_source`, when there is one: id and source together
 *   are the message's identity then.
 * - A CloudEvent in binary mode, which has a header `cloudEvents:specversion` or `cloudEvents_specversion`: id, source, type and time are
 *   those of the event; its other attributes are headers without the prefix.
 * - `payload`: parsed, when the content type is JSON or missing; text, when it is `text/…`, in the charset that it
 *   names or else UTF-8; otherwise the bytes, as a `Uint8Array` on the delivery's memory. `P` is not checked.
 *
 * @throws {InvalidMessageError} without an id, for a body that is not what its content type says, and for JSON
 *   or text that is compressed. A redelivery would fail again: reject the delivery without requeueing it.
 */
export function fromRabbitmq<P = unknown>(delivery: RabbitmqDelivery): InboxMessage<P> {
  const { properties } = checked(delivery)
  const id = idOf(properties)
  if (id === undefined) {
    throw new InvalidMessageError(
      `The delivery has no message id: its property 'messageId' must be a non-empty string, not ${nameOf(properties.messageId)}. Make the producer set ` +
        'it to the same value in every resend, or set an id that you derive from the content.',
    )
  }
  return messageOf<P>(delivery, id)
}

/**
 * Converts a delivery to a message with this id. Without an id, the id of the message is empty.
 *
 * @throws {InvalidMessageError} as `fromRabbitmq` does.
 */
export function messageOf<P>(delivery: RabbitmqDelivery, id: string | undefined): InboxMessage<P> {
  const { content, properties } = delivery
  const payload = deliveryPayload(id ?? 'without an id', content, properties) as P
  return Object.assign(identityOf(properties), { id: id ?? '', payload })
}

type ReadIdentity = Omit<MessageIdentity, 'id' | 'headers'> & {
  readonly id?: string
  readonly headers: Readonly<Record<string, string>>
}

/** Reads a message apart from its payload, or the CloudEvent in it. The id may be missing. */
export function identityOf(properties: RabbitmqDelivery['properties']): ReadIdentity {
  const identity = receivedIdentityOf(properties)
  const headers = { ...identity.headers }
  for (const name of [KEY_HEADER, TIME_HEADER]) delete headers[name]
  for (const name of COUNT_HEADERS) {
    if (typeof propertyOf(properties.headers, name) !== 'string') delete headers[name]
  }
  return withCloudEvent({ ...identity, headers }, CLOUD_EVENTS)
}

/** Reads a message apart from its payload, with all of its headers except for a time that is read. */
export function receivedIdentityOf(properties: RabbitmqDelivery['properties']): ReadIdentity {
  const headers = textHeaders(properties.headers)
  const source = CLOUD_EVENTS.map((prefix) => headers[`${prefix}source`]).find(
    (value) => value !== undefined && value !== '',
  )
  const id = textOf(properties.messageId)
  const type = textOf(properties.type)
  const correlationId = textOf(properties.correlationId)
  const sentAt = sentTimeOf(headers[TIME_HEADER])
  if (sentAt !== undefined) delete headers[TIME_HEADER]
  const time = sentAt ?? timeOf(properties.timestamp)
  return {
    ...(id === undefined ? {} : { id }),
    headers,
    ...(source === undefined ? {} : { source }),
    ...(type === undefined ? {} : { type }),
    ...(correlationId === undefined ? {} : { correlationId }),
    ...(time === undefined ? {} : { time }),
  }
}

function checked(delivery: RabbitmqDelivery): RabbitmqDelivery {
  const { content, properties } = (delivery ?? {}) as Partial<RabbitmqDelivery>
  if (!(content instanceof Uint8Array) || typeof properties !== 'object' || properties === null) {
    throw new InvalidMessageError(
      `fromRabbitmq: expected a delivery with 'content' and 'properties', not ${nameOf(delivery)}. A consumer's callback ` +
        'gets null when its queue was deleted.',
    )
  }
  return { content, properties }
}

function textHeaders(headers: unknown): Record<string, string> {
  if (typeof headers !== 'object' || headers === null) return {}
  const texts: [string, string][] = []
  for (const [name, value] of Object.entries(headers)) {
    if (['string', 'number', 'bigint', 'boolean'].includes(typeof value)) texts.push([name, String(value)])
  }
  return Object.fromEntries(texts)
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

function sentTimeOf(text: string | undefined): Date | undefined {
  if (text === undefined || !RFC_3339.test(text)) return undefined
  const time = new Date(text.toUpperCase())
  return Number.isNaN(time.getTime()) ? undefined : time
}

function timeOf(timestamp: unknown): Date | undefined {
  if (Object.prototype.toString.call(timestamp) === '[object Date]') {
    return Number.isNaN((timestamp as Date).getTime()) ? undefined : (timestamp as Date)
  }
  if (typeof timestamp !== 'number' && typeof timestamp !== 'bigint') return undefined
  const value = Number(timestamp)
  const time = new Date(value >= MILLISECONDS_FROM ? value : value * 1000)
  return Number.isNaN(time.getTime()) ? undefined : time
}

/** The id of a message: that of the CloudEvent in it, or the property `message-id`. */
export function idOf({ messageId, headers }: RabbitmqDelivery['properties']): string | undefined {
  return eventAttribute(headers, 'id') ?? textOf(messageId)
}

/** The ordering key of a CloudEvent, which is its attribute `partitionkey`. */
export function eventKeyOf(headers: unknown): string | undefined {
  return eventAttribute(headers, 'partitionkey')
}

function eventAttribute(headers: unknown, name: string): string | undefined {
  const prefix = CLOUD_EVENTS.find((each) => propertyOf(headers, `${each}specversion`) !== undefined)
  return prefix === undefined ? undefined : textOf(propertyOf(headers, `${prefix}${name}`))
}
