import { PermanentError, RetryLaterError, type OutboxMessage } from '@txbox/core'
import { isTraceparent, isTracestate, nameOf, oneLine, reasonOf } from '@txbox/core/internal'
import { isSource, type EventSettings } from './cloud-events-options.ts'

/** Characters that the type String of CloudEvents excludes: control characters, noncharacters and lone surrogates. */
const EXCLUDED = /[\p{Cc}\p{Noncharacter_Code_Point}\p{Surrogate}]/u

/** The attributes of an event in their order, each once. `datacontenttype` is among them. */
export type EventAttributes = ReadonlyMap<string, string>

/**
 * Returns the attributes of the event for a message.
 *
 * @throws {PermanentError} when a field of the message cannot be an attribute: each attempt would fail.
 * @throws {RetryLaterError} when a function of the options fails.
 */
export function attributesOf(message: OutboxMessage, settings: EventSettings): EventAttributes {
  const { id, type, topic, key, correlationId, contentType, contentEncoding, createdAt, headers } = message
  if (Number.isNaN(createdAt.getTime())) throw refusal(id, 'its time of creation is no valid date')
  const { source, subject } = chosen(message, settings)
  const attributes: readonly (readonly [string, string | undefined])[] = [
    ['specversion', '1.0'],
    ['id', id],
    ['source', source],
    ['type', type === undefined || type === '' ? topic : type],
    ['subject', subject],
    ['time', createdAt.toISOString()],
    ['datacontenttype', contentType === '' ? undefined : contentType],
    ['contentencoding', contentEncoding],
    ['partitionkey', key],
    ['correlationid', correlationId],
    ...traceOf(headers),
    ...[...settings.extensions].map((name) => [name, headerOf(headers, name)] as const),
  ]
  const found = new Map<string, string>()
  for (const [name, value] of attributes) {
    if (value === undefined) continue
    if (value === '' && ['id', 'type', 'subject'].includes(name)) {
      throw refusal(id, `the attribute '${name}' of its event is empty`)
    }
    if (EXCLUDED.test(value)) {
      throw refusal(
        id,
        `the attribute '${name}' of its event has a character that CloudEvents exclude, such as a control character`,
      )
    }
    found.set(name, value)
  }
  return found
}

function chosen(
  message: OutboxMessage,
  { sourceOf, subjectOf }: EventSettings,
): { readonly source: string; readonly subject: string | undefined } {
  try {
    const source = sourceOf(message)
    if (!isSource(source)) throw new TypeError(`'source' returned ${nameOf(source)}, and no URI reference`)
    const subject = subjectOf(message)
    if (subject !== undefined && typeof subject !== 'string') {
      throw new TypeError(`'subject' returned ${nameOf(subject)}`)
    }
    return { source, subject }
  } catch (error) {
    const text = `Message ${oneLine(message.id)} is no event, because an option of cloudEvents failed: ${reasonOf(error, 300)}`
    throw new RetryLaterError({ message: text, cause: error })
  }
}

/** The distributed tracing extension. An invalid trace context does not become an attribute, and its header stays as it is. */
function traceOf(headers: OutboxMessage['headers']): (readonly [string, string])[] {
  const traceparent = headerOf(headers, 'traceparent')
  const tracestate = headerOf(headers, 'tracestate')
  if (!isTraceparent(traceparent)) return []
  // A state may have tabs, which an attribute may not.
  const hasState = isTracestate(tracestate) && !EXCLUDED.test(tracestate)
  return [['traceparent', traceparent], ...(hasState ? [['tracestate', tracestate] as const] : [])]
}

function headerOf(headers: OutboxMessage['headers'], name: string): string | undefined {
  const value: unknown = Object.hasOwn(headers, name) ? headers[name] : undefined
  return typeof value === 'string' ? value : undefined
}

export function refusal(id: string, what: string): PermanentError {
  return new PermanentError(`Message ${oneLine(id)} cannot be sent as a CloudEvent: ${what}.`)
}
