import { validateHeaderName, validateHeaderValue } from 'node:http'
import { PermanentError, type OutboxMessage } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import { CONTENT_ENCODING, HTTP_HEADERS } from '../schemes/http-headers.ts'
import { STANDARD_HEADERS, WIRE_HEADERS } from '../schemes/standard-scheme.ts'

const FIELDS: ReadonlySet<string> = new Set(Object.values(WIRE_HEADERS))

export type Headers = Readonly<Record<string, string>>

/**
 * The headers of a message as they are sent, without the signature.
 *
 * @param fixed the headers that all messages have, with names in lower case.
 * @throws {PermanentError} when HTTP cannot carry a header or a field unchanged.
 */
export function wireHeaders(message: OutboxMessage, fixed: Headers): Headers {
  const { id, type, key, correlationId, contentType, contentEncoding, createdAt } = message
  if (!/^[!-~]+$/.test(id) || id.includes('.')) {
    throw refusal(
      id,
      `its id must have visible ASCII characters only, and no dot, which separates the signed parts. Give it another id`,
    )
  }
  if (Number.isNaN(createdAt.getTime())) throw refusal(id, 'its time of creation is no valid date')
  const headers = new Map<string, string>(Object.entries(fixed))
  for (const [name, value] of Object.entries(message.headers)) {
    checkMessageHeader(id, name, value, headers)
    headers.set(name.toLowerCase(), value)
  }
  const fields: readonly (readonly [field: string, header: string, value: string | undefined])[] = [
    ['content type', 'content-type', contentType === '' ? undefined : contentType],
    ['content encoding', CONTENT_ENCODING, contentEncoding],
    ['type', WIRE_HEADERS.type, type],
    ['key', WIRE_HEADERS.key, key],
    ['correlation id', WIRE_HEADERS.correlationId, correlationId],
    ['time', WIRE_HEADERS.time, createdAt.toISOString()],
    ['id', STANDARD_HEADERS.id, id],
  ]
  for (const [field, name, value] of fields) {
    if (value === undefined) continue
    if (name === CONTENT_ENCODING && headers.has(name))
      throw refusal(id, `it has a header '${name}' and a content encoding`)
    checkValue(id, `its ${field}`, name, value)
    headers.set(name, value)
  }
  return Object.fromEntries(headers)
}

/**
 * Whether HTTP obeys a header, named in lower case, or a field of the message is sent as this header: a message that sets it would not
 * arrive as it is.
 */
export function isReserved(name: string): boolean {
  return HTTP_HEADERS.has(name) || FIELDS.has(name) || name.startsWith('webhook-')
}

function checkMessageHeader(
  id: string,
  name: string,
  value: unknown,
  taken: ReadonlyMap<string, string>,
): void {
  const lower = name.toLowerCase()
  const shown = oneLine(name)
  if (isReserved(lower)) {
    throw refusal(
      id,
      `it has a header '${shown}', which HTTP or the publisher sets. Give the header another name`,
    )
  }
  if (taken.has(lower)) {
    throw refusal(id, `its header '${shown}' is set by the publisher, or twice in different case. Remove one`)
  }
  try {
    validateHeaderName(name)
  } catch {
    throw refusal(id, `its header '${shown}' has a name that HTTP cannot carry`)
  }
  if (typeof value !== 'string') throw refusal(id, `its header '${shown}' has a value that is no text`)
  checkValue(id, `its header '${shown}'`, name, value)
}

/** HTTP would trim white space at the ends, and has no characters above U+00FF. */
function checkValue(id: string, shown: string, name: string, value: string): void {
  if (value === value.trim() && isHeaderValue(name, value)) return
  throw refusal(
    id,
    `${shown} has a value that HTTP cannot carry unchanged: white space at an end, a control character, or a ` +
      'character above U+00FF. Put the value into the payload',
  )
}

export function isHeaderValue(name: string, value: string): boolean {
  try {
    validateHeaderValue(name, value)
    return true
  } catch {
    return false
  }
}

function refusal(id: string, what: string): PermanentError {
  return new PermanentError(`Message ${oneLine(id)} cannot be sent as a webhook: ${what}.`)
}
