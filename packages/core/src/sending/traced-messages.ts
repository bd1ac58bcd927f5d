import type { MessageToStore } from '../ports/outbox-store.ts'
import { ATTRIBUTES } from '../telemetry/names.ts'
import type { SpanDescription, Telemetry } from '../telemetry/telemetry.ts'
import {
  TRACEPARENT,
  TRACESTATE,
  isTraceparent,
  isTracestate,
  storedTraceContext,
} from '../telemetry/trace-context.ts'
import type { SendingCall } from './encode-messages.ts'

type Headers = Readonly<Record<string, string>>

let hasWarned = false

/**
 * Gives each message the trace context that is stored with the message: the context in its headers, which is removed from the
 * headers, or else the context that `telemetry` captures, once for all messages of the call.
 */
export function tracedMessages(
  messages: readonly MessageToStore[],
  telemetry: Pick<Telemetry, 'capture'> | undefined,
): readonly MessageToStore[] {
  const captured = telemetry?.capture()
  const stored = captured === undefined ? undefined : storedTraceContext(captured)
  if (stored === undefined && !messages.some(({ headers }) => hasContext(headers))) return messages
  return messages.map((message) => {
    if (!hasContext(message.headers)) return { ...message, traceContext: stored }
    const { headers, traceContext = stored } = taken(message.headers)
    return { ...message, headers, traceContext }
  })
}

/** The span of one call that stores messages. */
export function creating({ where }: SendingCall, messages: readonly MessageToStore[]): SpanDescription {
  const [first] = messages
  const topic = messages.every((message) => message.topic === first?.topic) ? first?.topic : undefined
  const only = messages.length === 1 ? first : undefined
  return {
    name: topic === undefined ? 'create' : `create ${topic}`,
    kind: 'producer',
    attributes: {
      [ATTRIBUTES.system]: 'txbox',
      [ATTRIBUTES.operationType]: 'create',
      [ATTRIBUTES.operationName]: where,
      ...(topic === undefined ? {} : { [ATTRIBUTES.destination]: topic }),
      ...(only === undefined
        ? { [ATTRIBUTES.batchMessages]: messages.length }
        : { [ATTRIBUTES.messageId]: only.id }),
      ...(only?.correlationId === undefined ? {} : { [ATTRIBUTES.conversationId]: only.correlationId }),
    },
  }
}

/** The case of header names does not matter in HTTP, so a handler may pass the headers on in any case. */
function isContextName(name: string): boolean {
  if (name.length !== TRACEPARENT.length && name.length !== TRACESTATE.length) return false
  const lower = name.toLowerCase()
  return lower === TRACEPARENT || lower === TRACESTATE
}

function hasContext(headers: Headers): boolean {
  for (const name in headers) if (isContextName(name)) return true
  return false
}

/** Removes the trace context from headers. An invalid context is dropped. */
function taken(given: Headers): { readonly headers: Headers; readonly traceContext?: string } {
  const entries = Object.entries(given)
  const headers = Object.fromEntries(entries.filter(([name]) => !isContextName(name)))
  const valueOf = (wanted: string): string | undefined =>
    given[wanted] ?? entries.find(([name]) => name.toLowerCase() === wanted)?.[1]
  const traceparent = valueOf(TRACEPARENT)
  const tracestate = valueOf(TRACESTATE)
  if (!isTraceparent(traceparent)) {
    warn(traceparent === undefined ? "'tracestate' without 'traceparent'" : "'traceparent'")
    return { headers }
  }
  if (tracestate === undefined) return { headers, traceContext: traceparent }
  if (!isTracestate(tracestate)) {
    warn("'tracestate'")
    return { headers, traceContext: traceparent }
  }
  return { headers, traceContext: storedTraceContext({ traceparent, tracestate }) }
}

/** Warns once in the process, because the same code makes the same header for each message. */
function warn(header: string): void {
  if (hasWarned) return
  hasWarned = true
  process.emitWarning(
    `A message had a header ${header} that is not valid (W3C Trace Context, version 00; a tracestate has at most 512 characters). ` +
      'The header was dropped, and the message was stored without it. Later ones are dropped without a warning.',
    { type: 'TxboxWarning', code: 'TXBOX_INVALID_TRACEPARENT' },
  )
}
