import type { CounterName, GaugeName, HistogramName } from './names.ts'
import type { TraceContext } from './trace-context.ts'

/** The attributes of a span or of a metric, by name. */
export type Attributes = Readonly<Record<string, string | number | boolean>>

/** A span of txbox, which a telemetry begins. */
export interface SpanDescription {
  /** The operation and its destination or consumer, such as `send orders`. */
  readonly name: string
  readonly kind: 'producer' | 'client' | 'consumer' | 'internal'
  readonly attributes: Attributes
  /**
   * The context of which the span is a child. If the code that is running has a span of the same trace, that span is the parent
   * instead, unless the span is `detached`. Without `parent`, the span of the code that is running is the parent, if there is one.
   */
  readonly parent?: TraceContext | undefined
  /**
   * Whether the span is independent of the code that is running, such as the loop of a relay. Without `parent`, such a span begins a
   * trace.
   *
   * @default false
   */
  readonly detached?: boolean | undefined
  /** The contexts of the messages that the span is about, at most 128. */
  readonly links?: readonly TraceContext[] | undefined
}

/** The handle by which work describes the span that it runs in. */
export interface SpanHandle {
  /** Adds attributes to the span, or replaces them. */
  set(attributes: Attributes): void
  /** Marks the span as failed. An error that the work throws does so without a call. */
  failed(error: unknown): void
}

/** One value of a gauge. */
export interface Observation {
  readonly value: number
  readonly attributes: Attributes
}

/**
 * The receiver of traces and metrics: `openTelemetry()` of `@txbox/opentelemetry`, `prometheusTelemetry()` of `@txbox/prometheus`, or
 * your own. A telemetry that throws, returns a wrong value or never settles does not disturb the work, which goes on without it. Its
 * first mistake is reported as a process warning with the code `TXBOX_TELEMETRY`.
 */
export interface Telemetry {
  /** Returns the context of the code that is running, to be stored with a message. `undefined`: there is none. */
  capture(): TraceContext | undefined
  /**
   * Calls `work` once, before `span` returns, with the new span as the span of the code that is running, and ends the span when the
   * promise of `work` settles. txbox itself waits for `work` only.
   *
   * @returns the result of `work`, or rejects with the error of `work`.
   */
  span<R>(span: SpanDescription, work: (handle: SpanHandle) => Promise<R>): Promise<R>
  /** Adds `value`, which is 0 or more, to a counter. 0 makes the counter exist. */
  count(metric: CounterName, value: number, attributes: Attributes): void
  /** Records one duration, in seconds. */
  record(metric: HistogramName, seconds: number, attributes: Attributes): void
  /**
   * Registers a gauge, whose values are read by `read` whenever they are wanted. `read` may reject.
   *
   * @returns a function that removes the gauge.
   */
  observe(metric: GaugeName, read: () => Promise<readonly Observation[]>): () => void
}
