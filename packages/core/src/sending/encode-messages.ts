import { crc32 } from 'node:zlib'
import { InvalidMessageError } from '../errors/errors.ts'
import { LIMITS } from '../options/limits.ts'
import { isLostInJson } from '../messages/lost-in-json.ts'
import type { NewMessage } from '../messages/messages.ts'
import { oneLine } from '../text/one-line.ts'
import { nameOf } from '../text/name-of.ts'
import type { MessageToStore } from '../ports/outbox-store.ts'
import type { BacklogMessage } from '../ports/relay-store.ts'
import { reasonOf } from '../errors/reason-of.ts'
import { payloadForm } from '../payload.ts'
import { isReservedHeader } from './reserved-headers.ts'
import { SHARDS } from './shards.ts'
import { uuidV7 } from '../messages/uuid-v7.ts'
import { withTraceContext } from '../telemetry/trace-context.ts'

const JSON_TYPE = 'application/json'
const BYTES_TYPE = 'application/octet-stream'

const FIELDS = Object.keys({
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
} satisfies Record<keyof NewMessage, true>)

/** The last date that every supported database can store. */
const LATEST_DELIVERY_MS = Date.UTC(9999, 11, 31)

/** Headers with fewer characters have room for a trace context, whatever their characters are. */
const SMALL_CHARACTERS = LIMITS.headersBytes / 4

let lastUnkeyedShard = 0

export interface SendingCall {
  /** Each error message begins with this name. */
  readonly where: 'publish' | 'send'
  /** The topic of all messages, if the messages themselves have none. */
  readonly topic?: string
  /** Whether a message may have no topic, because local consumers may get it. @default false */
  readonly topicOptional?: boolean
}

/**
 * Checks the messages of one call and encodes them for storage.
 *
 * @throws {InvalidMessageError} for too many messages, and for a value that the database cannot store and return
 *   unchanged.
 */
export function encodeMessages(call: SendingCall, messages: readonly unknown[]): readonly MessageToStore[] {
  refuseTooMuch(call, messages.length, 0)
  const encoder = new MessageEncoder(call)
  // Unlike `map`, this does not pass over missing elements.
  const stored = Array.from(messages, (message) => encoder.encode(message))
  refuseTooMuch(
    call,
    stored.length,
    stored.reduce((sum, { payload }) => sum + payload.byteLength, 0),
  )
  return stored
}

function refuseTooMuch({ where }: SendingCall, messages: number, bytes: number): void {
  if (messages <= LIMITS.batchMessages && bytes <= LIMITS.batchPayloadBytes) return
  const size = bytes === 0 ? '' : ` of ${bytes} bytes`
  const advice = where === 'publish' ? 'Publish' : 'Send'
  throw new InvalidMessageError(
    `${where}: ${messages} messages${size} are too many for one call; at most ${LIMITS.batchMessages} ` +
      `messages and ${LIMITS.batchPayloadBytes} bytes are allowed. ${advice} them in several calls. Nothing was written.`,
  )
}

class MessageEncoder {
  readonly #call: SendingCall

  constructor(call: SendingCall) {
    this.#call = call
  }

  encode(given: unknown): MessageToStore {
    if (typeof given !== 'object' || given === null) throw this.#invalid('the message', 'an object', given)
    this.#refuseUnknown(given)
    const message = given as NewMessage
    const topic = this.#topic(message.topic)
    const key = this.#optionalText('key', message.key, LIMITS.orderingKeyCharacters)
    const contentType =
      this.#optionalText('contentType', message.contentType, LIMITS.contentTypeCharacters) ??
      (message.payload instanceof Uint8Array ? BYTES_TYPE : JSON_TYPE)
    return {
      id: this.#optionalText('id', message.id, LIMITS.messageIdCharacters) ?? uuidV7(),
      shard: shardOf(key),
      topic,
      key,
      type: this.#optionalText('type', message.type, LIMITS.typeCharacters),
      contentType,
      payload: this.#encodePayload(message.payload, contentType),
      headers: this.#encodeHeaders(message.headers),
      correlationId: this.#optionalText(
        'correlationId',
        message.correlationId,
        LIMITS.correlationIdCharacters,
      ),
      deliverAt: this.#checkDeliverAt(message.deliverAt),
    }
  }

  #topic(given: unknown): string | undefined {
    const { topic, topicOptional } = this.#call
    if (topic !== undefined) return topic
    return topicOptional === true
      ? this.#optionalText('topic', given, LIMITS.topicCharacters)
      : this.#text('topic', given, LIMITS.topicCharacters)
  }

  /** A misspelled field would be lost silently: a message with `deliverAfter` would be published at once. */
  #refuseUnknown(message: object): void {
    const fields = this.#call.topic === undefined ? FIELDS : FIELDS.filter((field) => field !== 'topic')
    for (const [name, value] of Object.entries(message)) {
      if (value === undefined || fields.includes(name)) continue
      throw this.#error(
        `a message has no field '${oneLine(name)}'. The fields are ${fields.join(', ')}; put other data into 'payload' or 'headers'.`,
      )
    }
  }

  #checkDeliverAt(at: unknown): Date | undefined {
    if (at === undefined || at === null) return undefined
    // `instanceof` is false for a Date from another realm.
    const time = Object.prototype.toString.call(at) === '[object Date]' ? (at as Date).getTime() : NaN
    if (!(time >= 0 && time <= LATEST_DELIVERY_MS)) {
      throw this.#invalid("'deliverAt'", 'a Date from 1970-01-01 to 9999-12-31 at midnight UTC', at)
    }
    return new Date(time)
  }

  #encodePayload(payload: unknown, contentType: string): Uint8Array {
    const bytes =
      payload instanceof Uint8Array ? payload : Buffer.from(this.#payloadText(payload, contentType))
    if (bytes.byteLength > LIMITS.payloadBytes) {
      throw this.#error(
        `the payload has ${bytes.byteLength} bytes; at most ${LIMITS.payloadBytes} are allowed. Store the data elsewhere and ` +
          `${this.#call.where} a reference to it.`,
      )
    }
    return bytes
  }

  #payloadText(payload: unknown, contentType: string): string {
    if (payloadForm(contentType) !== 'json') {
      if (typeof payload !== 'string' || !payload.isWellFormed()) {
        const what = `the payload of content type '${oneLine(contentType)}'`
        throw this.#invalid(what, 'well-formed text or a Uint8Array', payload)
      }
      return payload
    }
    let text: string | undefined
    try {
      text = JSON.stringify(payload)
      if (isLostInJson(payload, text)) text = undefined
    } catch (error) {
      throw this.#error(`the payload cannot be written as JSON (${reasonOf(error, 200)}).`, { cause: error })
    }
    if (text === undefined) throw this.#invalid('the payload', 'a value that JSON can express', payload)
    return text
  }

  #encodeHeaders(headers: unknown): Readonly<Record<string, string>> {
    if (headers === undefined) return {}
    // A Map or the Headers of fetch has no members of its own: the headers in it would be lost.
    if (Object.prototype.toString.call(headers) !== '[object Object]') {
      throw this.#invalid("'headers'", 'a plain object whose values are strings', headers)
    }
    const entries = Object.entries(headers as object)
    for (const [name, value] of entries) {
      if (isReservedHeader(name)) throw this.#reserved(name)
      if (typeof value !== 'string' || !value.isWellFormed() || !name.isWellFormed()) {
        throw this.#invalid(`the header '${oneLine(name)}'`, 'well-formed text', value)
      }
    }
    // A copy of what was checked: the object itself may have a toJSON.
    const checked = Object.fromEntries(entries) as Record<string, string>
    const bytes = Buffer.byteLength(JSON.stringify(checked))
    if (bytes > LIMITS.headersBytes) {
      throw this.#error(
        `the headers have ${bytes} bytes as JSON; at most ${LIMITS.headersBytes} are allowed.`,
      )
    }
    return checked
  }

  #reserved(name: string): InvalidMessageError {
    return this.#error(
      `the header '${oneLine(name)}' is reserved: receivers read fields of the message in headers that begin with 'txbox-'. Set the ` +
        'field itself, or rename the header.',
    )
  }

  #optionalText(name: string, value: unknown, max: number): string | undefined {
    return value === undefined || value === null ? undefined : this.#text(name, value, max)
  }

  #text(name: string, value: unknown, max: number): string {
    if (
      typeof value !== 'string' ||
      value.length < 1 ||
      value.length > max ||
      value.includes('\0') ||
      !value.isWellFormed()
    ) {
      throw this.#invalid(`'${name}'`, `well-formed text of 1 to ${max} characters without NUL`, value)
    }
    return value
  }

  #invalid(what: string, expected: string, value: unknown): InvalidMessageError {
    return this.#error(`${what} must be ${expected}, not ${describe(value)}.`)
  }

  #error(text: string, options?: ErrorOptions): InvalidMessageError {
    return new InvalidMessageError(`${this.#call.where}: ${text} Nothing was written.`, options)
  }
}

/** Shows an instant, which is no secret, and describes any other value without its content. */
function describe(value: unknown): string {
  try {
    return value instanceof Date ? value.toISOString() : nameOf(value)
  } catch {
    // The value only has the prototype of a Date, or is an invalid Date.
    return nameOf(value)
  }
}

/** Messages without a key are distributed over all shards in turn. */
export function shardOf(key: string | undefined): number {
  if (key === undefined) return (lastUnkeyedShard = (lastUnkeyedShard + 1) % SHARDS)
  return crc32(key) % SHARDS
}

/**
 * Parses the headers of a stored message, and adds its trace context. A row with invalid headers must not prevent other rows from
 * being read.
 */
export function decodeHeaders(
  text: string,
  traceContext?: string,
): Pick<BacklogMessage, 'headers' | 'undecodable'> {
  const decoded = parsedHeaders(text)
  if (traceContext === undefined) return decoded
  const { headers } = decoded
  // Databases return JSON with more or less white space, so headers that may be near the limit are measured.
  const roomBytes =
    text.length < SMALL_CHARACTERS
      ? Infinity
      : LIMITS.headersBytes - Buffer.byteLength(JSON.stringify(headers))
  return { ...decoded, headers: withTraceContext(headers, traceContext, roomBytes) }
}

function parsedHeaders(text: string): Pick<BacklogMessage, 'headers' | 'undecodable'> {
  if (text === '{}') return { headers: {}, undecodable: undefined }
  let headers: unknown
  try {
    headers = JSON.parse(text)
  } catch {
    return { headers: {}, undecodable: 'Its headers are not valid JSON.' }
  }
  if (isHeaders(headers)) return { headers, undecodable: undefined }
  return { headers: {}, undecodable: 'Its headers are JSON, but no object of texts.' }
}

function isHeaders(value: unknown): value is Record<string, string> {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every((text) => typeof text === 'string')
  )
}
