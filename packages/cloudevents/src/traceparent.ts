const TRACEPARENT = /^00-([\da-f]{32})-([\da-f]{16})-[\da-f]{2}$/
const LONGEST_TRACESTATE = 512

/** Returns whether this is a `traceparent` of W3C Trace Context, version 00: a trace and a span, neither of which is all zeros. */
export function isTraceparent(text: string): boolean {
  const [, trace, span] = TRACEPARENT.exec(text) ?? []
  return trace !== undefined && /[^0]/.test(trace) && /[^0]/.test(span!)
}

/** Returns whether this may be a `tracestate`: 1 to 512 characters of visible ASCII and blanks. */
export function isTracestate(text: string): boolean {
  return text.length <= LONGEST_TRACESTATE && /^[ -~]+$/.test(text)
}
