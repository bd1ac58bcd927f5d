import { InvalidMessageError, LIMITS, type NewMessage, type NewStoredMessage } from '@txbox/core'
import { nameOf, oneLine, reasonOf, shardOf, uuidV7 } from '@txbox/core/internal'

const JSON_TYPE = 'application/json'
const BYTES_TYPE = 'application/octet-stream'

const FIELDS: Readonly<Record<keyof NewMessage, true>> = {
  topic: true,
  type: true,
  key: true,
  payload: true,
  contentType: true,
  headers: true,
  id: true,
  correlationId: true,
  deduplicationId: true,
  deliverAt: true,
}

/** The last date that every supported database can store. */
const LATEST_DELIVERY_MS = Date.UTC(9999, 11, 31)

/**
 * Checks a message and encodes it for storage.
 *
 * @throws {InvalidMessageError} for a value that the database cannot store and return unchanged.
 */
export function encodeMessage(message: NewMessage): NewStoredMessage {
  if (typeof message !== 'object' || message === null) throw invalid('the message', 'an object', message)
  refuseUnknown(message)
  const topic = text('topic', message.topic, LIMITS.topicCharacters)
  const key = optionalText('key', message.key, LIMITS.orderingKeyCharacters)
  const contentType =
    optionalText('contentType', message.contentType, LIMITS.contentTypeCharacters) ??
    (message.payload instanceof Uint8Array ? BYTES_TYPE : JSON_TYPE)
  return {
    id: optionalText('id', message.id, LIMITS.messageIdCharacters) ?? uuidV7(),
    shard: shardOf(key),
    topic,
    key,
    type: optionalText('type', message.type, LIMITS.typeCharacters),
    contentType,
    payload: encodePayload(message.payload, contentType),
    headers: encodeHeaders(message.headers),
    correlationId: optionalText('correlationId', message.correlationId, LIMITS.correlationIdCharacters),
    deliverAt: checkDeliverAt(message.deliverAt),
  }
}

/** A misspelled field would be lost silently: a message with `deliverAfter` would be published at once. */
function refuseUnknown(message: object): void {
  for (const [name, value] of Object.entries(message)) {
    if (value === undefined || Object.hasOwn(FIELDS, name)) continue
    throw new InvalidMessageError(
      `publish: a message has no field '${oneLine(name)}'. The fields are ${Object.keys(FIELDS).join(', ')}; put other data ` +
        "into 'payload' or 'headers'. Nothing was written.",
    )
  }
}

function checkDeliverAt(at: unknown): Date | undefined {
  if (at === undefined || at === null) return undefined
  // `instanceof` is false for a Date from another realm.
  const time = Object.prototype.toString.call(at) === '[object Date]' ? (at as Date).getTime() : NaN
  if (!(time >= 0 && time <= LATEST_DELIVERY_MS)) {
    throw invalid("'deliverAt'", 'a Date from 1970 to 9999', at)
  }
  return new Date(time)
}

function encodePayload(payload: unknown, contentType: string): Uint8Array {
  const bytes = payload instanceof Uint8Array ? payload : Buffer.from(payloadText(payload, contentType))
  if (bytes.byteLength > LIMITS.payloadBytes) {
    throw new InvalidMessageError(
      `publish: the payload has ${bytes.byteLength} bytes; at most ${LIMITS.payloadBytes} are allowed. Store the data ` +
        'elsewhere and publish a reference to it. Nothing was written.',
    )
  }
  return bytes
}

function payloadText(payload: unknown, contentType: string): string {
  if (!isJson(contentType)) {
    if (typeof payload !== 'string' || !payload.isWellFormed()) {
      throw invalid(
        `the payload of content type '${oneLine(contentType)}'`,
        'well-formed text or a Uint8Array',
        payload,
      )
    }
    return payload
  }
  let text: string | undefined
  try {
    text = JSON.stringify(payload)
  } catch (error) {
    throw new InvalidMessageError(
      `publish: the payload cannot be written as JSON (${reasonOf(error, 200)}). Nothing was written.`,
      { cause: error },
    )
  }
  if (text === undefined) throw invalid('the payload', 'a value that JSON can express', payload)
  return text
}

function isJson(contentType: string): boolean {
  return /^[^;]*[/+]json\s*(;|$)/i.test(contentType)
}

function encodeHeaders(headers: unknown): Readonly<Record<string, string>> {
  if (headers === undefined) return {}
  // A Map or the Headers of fetch has no members of its own: the headers in it would be lost.
  if (Object.prototype.toString.call(headers) !== '[object Object]') {
    throw invalid("'headers'", 'a plain object whose values are strings', headers)
  }
  const entries = Object.entries(headers as object)
  for (const [name, value] of entries) {
    if (typeof value !== 'string' || !value.isWellFormed() || !name.isWellFormed()) {
      throw invalid(`the header '${oneLine(name)}'`, 'well-formed text', value)
    }
  }
  // A copy of what was checked: the object itself may have a toJSON.
  const checked = Object.fromEntries(entries) as Record<string, string>
  const bytes = Buffer.byteLength(JSON.stringify(checked))
  if (bytes > LIMITS.headersBytes) {
    throw new InvalidMessageError(
      `publish: the headers have ${bytes} bytes as JSON; at most ${LIMITS.headersBytes} are allowed. Nothing was written.`,
    )
  }
  return checked
}

function optionalText(name: string, value: unknown, max: number): string | undefined {
  return value === undefined || value === null ? undefined : text(name, value, max)
}

function text(name: string, value: unknown, max: number): string {
  if (
    typeof value !== 'string' ||
    value.length < 1 ||
    value.length > max ||
    value.includes('\0') ||
    !value.isWellFormed()
  ) {
    throw invalid(`'${name}'`, `well-formed text of 1 to ${max} characters without NUL`, value)
  }
  return value
}

function invalid(what: string, expected: string, value: unknown): InvalidMessageError {
  return new InvalidMessageError(
    `publish: ${what} must be ${expected}, not ${nameOf(value)}. Nothing was written.`,
  )
}
