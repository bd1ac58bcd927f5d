import { PermanentError, type OutboxMessage } from '@txbox/core'
import { nameOf, oneLine } from '@txbox/core/internal'
import type { CommandArgument } from '../connection/command-port.ts'

/** The fields of an entry, in their order. Users' headers are one field, so that they keep their names. */
export const WIRE_FIELDS = {
  id: 'id',
  type: 'type',
  key: 'key',
  contentType: 'content-type',
  contentEncoding: 'content-encoding',
  correlationId: 'correlation-id',
  time: 'time',
  /** A JSON object of texts. */
  headers: 'headers',
  payload: 'payload',
} as const

/**
 * Returns the names and values of the fields that a message has in a stream. Each resend has the same.
 *
 * @throws {PermanentError} when an entry cannot carry the message unchanged: each attempt would fail.
 */
export function outgoingEntry(
  message: OutboxMessage,
  stream: string,
  maxMessageBytes: number,
): readonly CommandArgument[] {
  const { id, payload, createdAt } = message
  if (payload.byteLength > maxMessageBytes) {
    throw refusal(
      id,
      `its payload has ${payload.byteLength} bytes; 'maxMessageBytes' is ${maxMessageBytes}. Store the data elsewhere and publish a ` +
        'reference to it, or raise that option',
    )
  }
  if (stream === '') throw refusal(id, 'the name of its stream is empty')
  if (!stream.isWellFormed()) throw notUnicode(id, 'the name of its stream contains')
  if (Number.isNaN(createdAt.getTime())) throw refusal(id, 'its time of creation is no valid date')
  const entry: CommandArgument[] = []
  const texts: readonly (readonly [string, string | undefined])[] = [
    [WIRE_FIELDS.id, id],
    [WIRE_FIELDS.type, message.type],
    [WIRE_FIELDS.key, message.key],
    [WIRE_FIELDS.contentType, message.contentType === '' ? undefined : message.contentType],
    [WIRE_FIELDS.contentEncoding, message.contentEncoding],
    [WIRE_FIELDS.correlationId, message.correlationId],
    [WIRE_FIELDS.time, createdAt.toISOString()],
    [WIRE_FIELDS.headers, headersOf(message)],
  ]
  for (const [name, text] of texts) {
    if (text === undefined) continue
    if (!text.isWellFormed()) throw notUnicode(id, `its ${name.replace('-', ' ')} contains`)
    entry.push(name, text)
  }
  const bytes = Buffer.isBuffer(payload)
    ? payload
    : Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength)
  entry.push(WIRE_FIELDS.payload, bytes)
  return entry
}

function headersOf({ id, headers }: OutboxMessage): string | undefined {
  const entries = Object.entries<unknown>(headers)
  for (const [name, value] of entries) {
    if (!name.isWellFormed()) throw notUnicode(id, `its header '${oneLine(name)}' has a name that contains`)
    if (typeof value !== 'string')
      throw refusal(id, `its header '${oneLine(name)}' must be text, not ${nameOf(value)}`)
    if (!value.isWellFormed()) throw notUnicode(id, `its header '${oneLine(name)}' has a value that contains`)
  }
  return entries.length === 0 ? undefined : JSON.stringify(Object.fromEntries(entries))
}

/** A text with a lone surrogate would arrive changed. */
function notUnicode(id: string, what: string): PermanentError {
  return refusal(id, `${what} a lone surrogate, so it cannot be encoded as UTF-8. Remove the surrogate`)
}

function refusal(id: string, what: string): PermanentError {
  return new PermanentError(`Message ${oneLine(id)} cannot be published to Redis: ${what}.`)
}
