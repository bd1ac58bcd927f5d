import type { OutboxMessage, ReceivedMessage } from '@txbox/core'
import { explanationOf, jsonOf, oneLine, textOf, uuidV7 } from '@txbox/core/internal'
import type { HeldDelivery } from '../receive/held-delivery.ts'

const ERROR_CHARACTERS = 1000

/** The size of the headers that stay in a reduced dead letter: of each, and together. */
const SMALL_HEADER_CHARACTERS = 200
const SMALL_HEADERS_CHARACTERS = 4000

/** How much of the parts that are left out a reduced dead letter names. */
const NAMES_CHARACTERS = 500

type Headers = Readonly<Record<string, string>>

/** Creates the dead letter that is published for a message that cannot be handled. */
export function deadLetterMessage(held: HeldDelivery, topic: string, error: unknown): OutboxMessage {
  const received = held.delivery.body ?? encoded(held)
  const { id, type, correlationId, bytes, contentType = '', contentEncoding, headers } = received
  const { key } = held.delivery
  return outboxMessage({
    id: [id, held.identity.id].find(isText) ?? uuidV7(),
    topic,
    ...(isText(type) ? { type } : {}),
    ...(key === undefined ? {} : { key }),
    payload: bytes,
    contentType,
    ...(contentEncoding === undefined ? {} : { contentEncoding }),
    headers: {
      ...textHeaders(headers),
      'txbox-error': explanationOf(error, ERROR_CHARACTERS),
      'txbox-deliveries': String(held.deliveries),
      'txbox-source': held.source,
    },
    ...(isText(correlationId) ? { correlationId } : {}),
    createdAt: createdAt(received),
    attempt: 1,
  })
}

/** A third party's source may hand out headers that are no text. */
function textHeaders(headers: Headers | undefined): Headers {
  return Object.fromEntries(Object.entries(headers ?? {}).filter(([, value]) => typeof value === 'string'))
}

/**
 * Returns what is published instead of a dead letter that its publisher refuses for good: each with an id of its own, without a
 * further part, which its headers name.
 */
export function* reducedDeadLetters(letter: OutboxMessage): Generator<OutboxMessage> {
  const { id, topic, type, key, correlationId, payload, contentType, contentEncoding, headers } = letter
  const { own, reason } = partsOf(headers)
  const encoding = { contentType, ...(contentEncoding === undefined ? {} : { contentEncoding }) }
  const common = { topic, createdAt: letter.createdAt, attempt: 1 }
  const named = (left: readonly string[]): Headers => ({
    ...reason,
    'txbox-original-id': oneLine(id),
    ...(left.length === 0 ? {} : { 'txbox-left-out': oneLine(left.join(', '), NAMES_CHARACTERS) }),
  })
  const fields = {
    ...(type === undefined ? {} : { type }),
    ...(key === undefined ? {} : { key }),
    ...(correlationId === undefined ? {} : { correlationId }),
  }
  const content = { payload, ...encoding }
  yield outboxMessage({ ...common, ...fields, ...content, id: uuidV7(), headers: { ...own, ...named([]) } })
  const { small, large } = smallHeaders(own)
  const left = [...Object.keys(fields), ...large.map((name) => `header ${name}`)]
  yield outboxMessage({ ...common, ...content, id: uuidV7(), headers: { ...small, ...named(left) } })
  const all = [...Object.keys(fields), ...Object.keys(own).map((name) => `header ${name}`)]
  yield outboxMessage({ ...common, ...content, id: uuidV7(), headers: named(all) })
  const body = `payload of ${payload.byteLength} bytes (${contentType === '' ? 'no content type' : contentType})`
  const nothing = { payload: new Uint8Array(0), contentType: 'application/octet-stream' }
  yield outboxMessage({ ...common, ...nothing, id: uuidV7(), headers: named([body, ...all]) })
}

function partsOf(headers: Headers): { readonly own: Headers; readonly reason: Headers } {
  const { 'txbox-error': error, 'txbox-deliveries': deliveries, 'txbox-source': source, ...own } = headers
  return {
    own,
    reason: { 'txbox-error': error!, 'txbox-deliveries': deliveries!, 'txbox-source': source! },
  }
}

function smallHeaders(headers: Headers): { readonly small: Headers; readonly large: readonly string[] } {
  const small: [string, string][] = []
  const large: string[] = []
  let characters = 0
  for (const [name, value] of Object.entries(headers)) {
    const size = name.length + value.length
    if (size > SMALL_HEADER_CHARACTERS || characters + size > SMALL_HEADERS_CHARACTERS) large.push(name)
    else {
      small.push([name, value])
      characters += size
    }
  }
  return { small: Object.fromEntries(small), large }
}

function outboxMessage(fields: Omit<OutboxMessage, 'text' | 'json'>): OutboxMessage {
  const message: OutboxMessage = {
    ...fields,
    text: () => textOf(message),
    json: <P>() => jsonOf(message) as P,
  }
  return message
}

/** Encodes a message again whose source does not keep what it has received. */
function encoded({ message }: HeldDelivery): ReceivedMessage {
  const { payload, ...identity } = message
  if (payload instanceof Uint8Array) {
    return { ...identity, bytes: payload, contentType: 'application/octet-stream' }
  }
  const isString = typeof payload === 'string'
  const bytes = new TextEncoder().encode(isString ? payload : jsonText(payload))
  return { ...identity, bytes, contentType: isString ? 'text/plain; charset=utf-8' : 'application/json' }
}

/** A payload that cannot be written as JSON did not come from JSON. Its dead letter has everything except the payload. */
function jsonText(payload: unknown): string {
  try {
    return JSON.stringify(payload) ?? 'null'
  } catch {
    return 'null'
  }
}

/** Reads the time of a message. A source that is not part of txbox may have set it to a value of any type. */
function createdAt({ time }: { readonly time?: unknown }): Date {
  const isDate = Object.prototype.toString.call(time) === '[object Date]'
  const isReadable = isDate || typeof time === 'string' || typeof time === 'number'
  const given = new Date(isReadable ? (time as Date | string | number) : Number.NaN)
  return Number.isNaN(given.getTime()) ? new Date() : given
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}
