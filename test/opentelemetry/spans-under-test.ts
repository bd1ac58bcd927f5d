import { context, propagation, trace, type Span } from '@opentelemetry/api'
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
  type ReadableSpan,
} from '@opentelemetry/sdk-trace-node'
import { afterAll, beforeAll, beforeEach } from 'vitest'
import { openTelemetry } from '@txbox/opentelemetry'
import { until } from '../support/worlds/until.ts'

/** The spans that the SDK of OpenTelemetry exports, to memory. */
export class SpansUnderTest {
  readonly #exporter = new InMemorySpanExporter()
  /** Made before the SDK starts, as by a module that is imported early. */
  readonly telemetry = openTelemetry()

  start(): void {
    new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(this.#exporter)] }).register()
  }

  reset(): void {
    this.#exporter.reset()
  }

  /** The spans that have ended, by their ends. */
  get ended(): readonly ReadableSpan[] {
    return this.#exporter.getFinishedSpans()
  }

  named(name: string): readonly ReadableSpan[] {
    return this.ended.filter((span) => span.name === name)
  }

  /** Resolves when this many spans of a name have ended. */
  async has(name: string, count = 1): Promise<readonly ReadableSpan[]> {
    await until(
      async () => this.named(name).length >= count,
      () => `${count} spans '${name}'; there are: ${this.ended.map((span) => span.name).join(', ')}`,
    )
    return this.named(name)
  }

  /** Runs work in a span, as the service of a user does. */
  async within<R>(name: string, work: (span: Span) => Promise<R>): Promise<R> {
    return trace.getTracer('a service').startActiveSpan(name, async (span) => {
      try {
        return await work(span)
      } finally {
        span.end()
      }
    })
  }
}

/** The SDK, which is that of the process while the tests of a file run. */
export function useSpans(): SpansUnderTest {
  const spans = new SpansUnderTest()
  beforeAll(() => spans.start())
  beforeEach(() => spans.reset())
  afterAll(() => {
    context.disable()
    propagation.disable()
    trace.disable()
  })
  return spans
}

export function idOf(span: ReadableSpan): string {
  return span.spanContext().spanId
}

export function traceOf(span: ReadableSpan): string {
  return span.spanContext().traceId
}

/** The ids of the spans to which a span is linked. */
export function linksOf(span: ReadableSpan): readonly string[] {
  return span.links.map((link) => link.context.spanId)
}
