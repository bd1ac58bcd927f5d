import {
  ROOT_CONTEXT,
  context,
  createTraceState,
  isSpanContextValid,
  trace,
  type Context,
  type SpanContext,
} from '@opentelemetry/api'
import type { SpanDescription, TraceContext } from '@txbox/core'

/** The context of the span of the code that is running, as it is stored with a message. */
export function activeTraceContext(): TraceContext | undefined {
  const active = trace.getSpanContext(context.active())
  if (active === undefined || !isSpanContextValid(active)) return undefined
  const flags = (active.traceFlags & 0xff).toString(16).padStart(2, '0')
  const traceparent = `00-${active.traceId}-${active.spanId}-${flags}`
  const tracestate = active.traceState?.serialize()
  return tracestate === undefined || tracestate === '' ? { traceparent } : { traceparent, tracestate }
}

/** The context of a span that another process, or an earlier transaction, has had. */
export function remoteSpanContext({ traceparent, tracestate }: TraceContext): SpanContext {
  const [, traceId, spanId, flags] = traceparent.split('-') as [string, string, string, string]
  return {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
    ...(tracestate === undefined ? {} : { traceState: createTraceState(tracestate) }),
  }
}

/** The context below which a span begins. */
export function parentOf({ parent, detached }: SpanDescription): Context {
  const around = detached === true ? ROOT_CONTEXT : context.active()
  if (parent === undefined) return around
  const remote = remoteSpanContext(parent)
  // The code that is running belongs to the trace already, such as by the span of an instrumented client or server.
  const isPart = trace.getSpanContext(around)?.traceId === remote.traceId
  return isPart ? around : trace.setSpanContext(around, remote)
}
