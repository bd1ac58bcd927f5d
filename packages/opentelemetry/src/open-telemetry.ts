import {
  SpanKind,
  SpanStatusCode,
  context,
  trace,
  type Context,
  type Meter,
  type Span,
  type Tracer,
  type TracerProvider,
} from '@opentelemetry/api'
import type { Attributes, SpanDescription, SpanHandle, Telemetry } from '@txbox/core'
import {
  ATTRIBUTES,
  OptionChecker,
  errorTypeOf,
  propertyOf,
  reasonOf,
  withoutDestination,
} from '@txbox/core/internal'
import { INSTRUMENTATION, Instruments } from './instruments.ts'
import { activeTraceContext, parentOf, remoteSpanContext } from './span-contexts.ts'

export interface OpenTelemetryOptions {
  /** @default that of the global tracer provider, which may be set later */
  tracer?: Tracer | undefined
  /** @default that of the global meter provider, which may be set later */
  meter?: Meter | undefined
  /**
   * The spans that are created.
   *
   * - `'all'`: `create <topic>` around the storing of messages, `send <topic>` around each call of the publisher, and
   *   `process <consumer>` around the handling of a message.
   * - `'links-only'`: all except `create`: other spans are linked to, or continue, the span of the code that publishes.
   * - `'none'`: no spans. The contexts of messages travel on, and handlers run in them.
   *
   * @default 'all'
   */
  spans?: 'all' | 'links-only' | 'none' | undefined
  /**
   * Whether metrics have the attribute `messaging.destination.name`. Each topic is then a time series of its own, so leave this off
   * if there are many topics. @default false
   */
  destinationAttribute?: boolean | undefined
}

const KINDS = {
  producer: SpanKind.PRODUCER,
  client: SpanKind.CLIENT,
  consumer: SpanKind.CONSUMER,
  internal: SpanKind.INTERNAL,
} as const

/** The handle of work without a span. */
const NO_SPAN: SpanHandle = { set: () => undefined, failed: () => undefined }

const ERROR_CHARACTERS = 300

/**
 * Sends the traces and metrics of txbox to OpenTelemetry. Pass the result to the option `telemetry`, or import
 * `@txbox/opentelemetry/register` to use it in the whole process.
 *
 * @throws {InvalidOptionError} for an unknown or wrong option.
 */
export function openTelemetry(options: OpenTelemetryOptions = {}): Telemetry {
  const check = new OptionChecker('openTelemetry', options).known(
    'tracer',
    'meter',
    'spans',
    'destinationAttribute',
  )
  const { tracer, meter } = options
  if (tracer !== undefined && typeof propertyOf(tracer, 'startSpan') !== 'function') {
    throw check.wrong('tracer', 'a Tracer of @opentelemetry/api')
  }
  if (meter !== undefined && typeof propertyOf(meter, 'createCounter') !== 'function') {
    throw check.wrong('meter', 'a Meter of @opentelemetry/api')
  }
  const spans = check.oneOf('spans', ['all', 'links-only', 'none'], 'all')
  const hasDestination = check.flag('destinationAttribute', false)
  const tracerOf = tracer === undefined ? globalTracer() : () => tracer
  const instruments = new Instruments(meter)
  const ofMetric = (attributes: Attributes): Attributes =>
    hasDestination ? attributes : withoutDestination(attributes)

  return {
    capture: activeTraceContext,
    span(description, work) {
      const isLeftOut = spans === 'none' || (spans === 'links-only' && description.kind === 'producer')
      const parent = parentOf(description)
      if (isLeftOut) return context.with(parent, () => work(NO_SPAN))
      const span = begun(tracerOf(), description, parent)
      return context.with(trace.setSpan(parent, span), () => ended(span, work))
    },
    count: (metric, value, attributes) => instruments.counter(metric).add(value, ofMetric(attributes)),
    record: (metric, seconds, attributes) =>
      instruments.histogram(metric).record(seconds, ofMetric(attributes)),
    observe: (metric, read) => instruments.observe(metric, read),
  }
}

/**
 * Looks the tracer up at each use, so that an SDK may start later than txbox. A tracer that was taken before the SDK has started does
 * not suffice: the package of the API may be loaded twice, by `import` and by `require`, and only the tracers of the copy that the
 * SDK uses pass on to the SDK.
 */
function globalTracer(): () => Tracer {
  let provider: TracerProvider | undefined
  let tracer: Tracer | undefined
  return () => {
    const current = trace.getTracerProvider()
    if (tracer === undefined || provider !== current) {
      provider = current
      tracer = current.getTracer(INSTRUMENTATION)
    }
    return tracer
  }
}

function begun(tracer: Tracer, description: SpanDescription, parent: Context): Span {
  const { name, kind, attributes, links = [] } = description
  return tracer.startSpan(
    name,
    {
      kind: KINDS[kind],
      attributes,
      links: links.map((link) => ({ context: remoteSpanContext(link) })),
    },
    parent,
  )
}

async function ended<R>(span: Span, work: (handle: SpanHandle) => Promise<R>): Promise<R> {
  try {
    return await work({
      set: (attributes) => void span.setAttributes(attributes),
      failed: (error) => failed(span, error),
    })
  } catch (error) {
    failed(span, error)
    throw error
  } finally {
    span.end()
  }
}

function failed(span: Span, error: unknown): void {
  span.setAttribute(ATTRIBUTES.errorType, errorTypeOf(error))
  span.setStatus({ code: SpanStatusCode.ERROR, message: reasonOf(error, ERROR_CHARACTERS) })
}
