import { InvalidMessageError } from './errors/errors.ts'
import { propertyOf } from './errors/property-of.ts'
import type { OutboxMessage } from './messages/messages.ts'
import { oneLine } from './text/one-line.ts'

/*
 * How payloads are read, in every package. JSON may begin with a byte order mark, which is skipped (RFC 8259, section 8.1).
 * In a text the mark is a character like any other: the text has all that its producer wrote.
 */

export type EncodedPayload = Pick<OutboxMessage, 'id' | 'contentType' | 'payload'>

/** Creating a decoder costs more than decoding a small payload, and nearly all payloads are in UTF-8. */
const JSON_IN_UTF_8 = new TextDecoder('utf-8', { fatal: true })
const TEXT_IN_UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Marks an error across two installed copies of this package. */
const undecodable = Symbol.for('txbox.undecodable')

/** Returns what a payload of this content type is. A missing content type stands for JSON. */
export function payloadForm(contentType: string): 'json' | 'text' | 'bytes' {
  if (contentType === '' || /^[^;]*[/+]json\s*(;|$)/i.test(contentType)) return 'json'
  return /^text\//i.test(contentType) ? 'text' : 'bytes'
}

/**
 * Returns the payload as its content type says: JSON as its value, text as a string, and anything else as the bytes themselves.
 *
 * @param producer `'txbox'` writes JSON and strings in UTF-8, whatever charset a content type names, and stores bytes as they
 *   are. So JSON is read as UTF-8, and a text that names another charset remains bytes. `'any'` producer is taken at its word:
 *   the named charset is decoded.
 * @throws {InvalidMessageError} when the payload is not what its content type says.
 */
export function decodePayload(message: EncodedPayload, producer: 'txbox' | 'any'): unknown {
  const { contentType, payload } = message
  const form = payloadForm(contentType)
  if (form === 'bytes') return payload
  if (form === 'json') return jsonOf(message, producer === 'any' ? charsetOf(contentType) : undefined)
  const charset = charsetOf(contentType)
  return producer === 'any' || charset === 'utf-8' ? textOf(message, charset) : payload
}

/** The payload as text, exactly as its producer wrote it. @throws {InvalidMessageError} when it is not text in the charset. */
export function textOf(message: EncodedPayload, charset = 'utf-8', decoder = TEXT_IN_UTF_8): string {
  try {
    const { ignoreBOM } = decoder
    const decodes = charset === 'utf-8' ? decoder : new TextDecoder(charset, { fatal: true, ignoreBOM })
    return decodes.decode(message.payload)
  } catch (cause) {
    throw undecodableError(message, `text in ${oneLine(charset, 40)}`, { cause })
  }
}

/** The payload parsed as JSON. @throws {InvalidMessageError} when it is not JSON. */
export function jsonOf(message: EncodedPayload, charset?: string): unknown {
  const text = textOf(message, charset, JSON_IN_UTF_8)
  try {
    return JSON.parse(text)
  } catch {
    // The parser's error is not passed on as the cause, because its text quotes the payload.
    throw undecodableError(message, 'JSON')
  }
}

/** Whether the error was thrown by decoding a payload: every other attempt would fail as well. */
export function isUndecodable(error: unknown): boolean {
  return propertyOf(error, undecodable) === true
}

function charsetOf(contentType: string): string {
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(contentType)?.[1]?.toLowerCase() ?? 'utf-8'
  return charset === 'utf8' ? 'utf-8' : charset
}

function undecodableError({ id, contentType }: EncodedPayload, form: string, cause?: ErrorOptions): Error {
  const type =
    contentType === ''
      ? 'no content type, which stands for JSON'
      : `the content type '${oneLine(contentType)}'`
  const error = new InvalidMessageError(
    `Message ${oneLine(id)} has ${type}, and its payload is not ${form}. Make the producer set the content type that matches the ` +
      "payload, with the charset of a text, or 'application/octet-stream' for bytes.",
    cause,
  )
  return Object.defineProperty(error, undecodable, { value: true })
}
