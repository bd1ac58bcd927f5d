import type { CounterName, GaugeName, HistogramName } from './names.ts'
import type { TraceContext } from './trace-context.ts'

/** The attributes of a span or of a metric, by name. */
export type Attributes = Readonly<Record<string, string | number | boolean>>

/** A span that txbox wants to have. */
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
   * Whether the span has nothing to do with the code that is running, such as the loop of a relay: without `parent`, it begins a trace.
   *
   * @default false
   */
  readonly detached?: boolean | undefined
  /** The contexts of the messages that the span is about, at most 128. */
  readonly links?: readonly TraceContext[] | undefined
}

/** What the work in a span tells about itself. */
export interface SpanHandle {
  /** Adds attributes to the span, or replaces them. */
  set(attributes: Attributes): void
  /** Marks the span as failed. An error that the work throws need not be told. */
  failed(error: unknown): void
}

/** One value of a gauge. */
export interface Observation {
  readonly value: number
  readonly attributes: Attributes
}

/**
 * Where traces and metrics go: `openTelemetry()` of `@txbox/opentelemetry`, or your own. One that throws, answers nonsense or never
 * answers disturbs nothing: the work goes on without it, and the first mistake is told once, as a process warning with the code
 * `TXBOX_TELEMETRY`.
 */
export interface Telemetry {
  /** Returns the context of the code that is running, to be stored with a message. `undefined`: there is none. */
  capture(): TraceContext | undefined
  /**
   * Calls `work` once, before `span` returns, with the new span as the span of the code that is running, and ends the span when the
   * promise of `work` settles. txbox itself waits for `work` only.
   */
  span<R>(span: SpanDescription, work: (tell: SpanHandle) => Promise<R>): Promise<R>
  /** Adds to a counter. */
  count(metric: CounterName, value: number, attributes: Attributes): void
  /** Records one duration. */
  record(metric: HistogramName, seconds: number, attributes: Attributes): void
  /**
   * Reads a gauge whenever its value is wanted.
   *
   * @returns a function that ends this.
   */
  observe(metric: GaugeName, read: () => Promise<readonly Observation[]>): () => void
}
