import type { SpanDescription, Telemetry, TraceContext } from '@txbox/core'

/** What a telemetry was told about one span. */
export interface StubSpan extends SpanDescription {
  readonly set: Record<string, unknown>
  readonly errors: unknown[]
  /** Whether the work of the span has ended. */
  ended: boolean
}

/** A telemetry that records its spans, and captures what the test gives it. */
export class StubTelemetry implements Telemetry {
  readonly spans: StubSpan[] = []
  captures = 0
  context: TraceContext | undefined

  constructor(context?: TraceContext) {
    this.context = context
  }

  capture(): TraceContext | undefined {
    this.captures++
    return this.context
  }

  async span<R>(
    description: SpanDescription,
    work: (tell: { set(attributes: object): void; failed(error: unknown): void }) => Promise<R>,
  ): Promise<R> {
    const span: StubSpan = { ...description, set: {}, errors: [], ended: false }
    this.spans.push(span)
    try {
      return await work({
        set: (attributes) => void Object.assign(span.set, attributes),
        failed: (error) => void span.errors.push(error),
      })
    } finally {
      span.ended = true
    }
  }

  count(): void {}

  record(): void {}

  observe(): () => void {
    return () => undefined
  }
}

let spans = 0

/** A context of a trace of its own. */
export function someContext(tracestate?: string): TraceContext {
  const span = (++spans).toString(16).padStart(16, '0')
  const traceparent = `00-0af7651916cd43dd8448eb211c80319c-${span}-01`
  return tracestate === undefined ? { traceparent } : { traceparent, tracestate }
}
