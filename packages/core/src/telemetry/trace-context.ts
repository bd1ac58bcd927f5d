/** The identity of a span, as W3C Trace Context writes it. */
export interface TraceContext {
  /** Version, trace, span and flags, such as `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`. */
  readonly traceparent: string
  /** The members that vendors add, `key=value` separated by commas: at most 32, and 1 to 512 characters of printable ASCII. */
  readonly tracestate?: string | undefined
}

/** The headers by which a trace context travels. */
export const TRACEPARENT = 'traceparent'
export const TRACESTATE = 'tracestate'

const FORM = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/
/** Members separated by commas: `key=value`, printable ASCII. */
const STATE = /^[\x20-\x7e\t]{1,512}$/
const MEMBER = /^[ \t]*(?:[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,256})?[ \t]*$/
const MOST_MEMBERS = 32

export function isTraceparent(value: unknown): value is string {
  return typeof value === 'string' && FORM.test(value)
}

export function isTracestate(value: unknown): value is string {
  if (typeof value !== 'string' || !STATE.test(value)) return false
  const members = value.split(',')
  return members.length <= MOST_MEMBERS && members.every((member) => MEMBER.test(member))
}

/** Returns the valid context of some headers, whose names are in lower case. An invalid `tracestate` is left out. */
export function traceContextOf(
  headers: Readonly<Record<string, unknown>> | undefined,
): TraceContext | undefined {
  const traceparent = headers?.[TRACEPARENT]
  if (!isTraceparent(traceparent)) return undefined
  const tracestate = headers![TRACESTATE]
  return isTracestate(tracestate) ? { traceparent, tracestate } : { traceparent }
}

/** The context as one text, which the column `trace_context` holds. */
export function storedTraceContext({ traceparent, tracestate }: TraceContext): string {
  return tracestate === undefined ? traceparent : `${traceparent};${tracestate}`
}

/**
 * Adds a stored context to the headers of its message. A text that is no context adds nothing.
 *
 * @param roomBytes how much larger the headers may become, as JSON: a context must not make a message too large for its broker. A
 *   part without room is left out, first the `tracestate`.
 */
export function withTraceContext(
  headers: Readonly<Record<string, string>>,
  stored: string,
  roomBytes: number,
): Readonly<Record<string, string>> {
  const end = stored.indexOf(';')
  const traceparent = end < 0 ? stored : stored.slice(0, end)
  if (!isTraceparent(traceparent) || roomBytes < bytesOf({ traceparent })) return headers
  const tracestate = end < 0 ? undefined : stored.slice(end + 1)
  if (!isTracestate(tracestate)) return { ...headers, traceparent }
  const hasRoom = roomBytes >= bytesOf({ traceparent }) + bytesOf({ tracestate })
  return hasRoom ? { ...headers, traceparent, tracestate } : { ...headers, traceparent }
}

/** Returns how many bytes a header adds to others as JSON, with its comma. */
function bytesOf(header: Readonly<Record<string, string>>): number {
  return Buffer.byteLength(JSON.stringify(header)) - 1
}
