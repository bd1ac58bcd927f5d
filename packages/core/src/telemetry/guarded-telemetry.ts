import { nameOf } from '../text/name-of.ts'
import { propertyOf } from '../errors/property-of.ts'
import { JoinedGauge, type ReadGauge } from './joined-gauge.ts'
import type { CounterName, GaugeName, HistogramName } from './names.ts'
import { ReportedOnce } from './reported-once.ts'
import type { Attributes, SpanDescription, SpanHandle, Telemetry } from './telemetry.ts'
import { isTraceparent, isTracestate, type TraceContext } from './trace-context.ts'

/** A telemetry whose span does not settle for so long after its work hangs. */
const HANGS_AFTER_MS = 10_000

/** The work of a span, once it was begun. */
interface Begun<R> {
  readonly running: Promise<R>
}

/** The readers of one gauge, and the end of what the telemetry observes. */
interface Joined {
  readonly gauge: JoinedGauge
  readonly end: () => void
}

/**
 * A telemetry whose mistakes do not disturb the work. No method throws, and `span` settles as its work does, without waiting for a
 * promise of the telemetry, which may never settle.
 */
export class GuardedTelemetry implements Telemetry {
  readonly #telemetry: Telemetry
  readonly #reports = new ReportedOnce()
  readonly #gauges = new Map<GaugeName, Joined>()
  #isWatching = false

  constructor(telemetry: Telemetry) {
    this.#telemetry = telemetry
  }

  capture(): TraceContext | undefined {
    const captured: unknown = this.#call('capture', () => this.#telemetry.capture())
    if (captured === undefined || captured === null) return undefined
    const traceparent = propertyOf(captured, 'traceparent')
    const tracestate = propertyOf(captured, 'tracestate')
    if (!isTraceparent(traceparent)) return this.#wrong('capture', 'answered something that is no context')
    if (tracestate === undefined) return { traceparent }
    if (isTracestate(tracestate)) return { traceparent, tracestate }
    this.#wrong('capture', 'answered a tracestate that is not valid')
    return { traceparent }
  }

  span<R>(span: SpanDescription, work: (handle: SpanHandle) => Promise<R>): Promise<R> {
    let begun: Begun<R> | undefined
    const begin = (given: unknown): Promise<R> => {
      if (begun === undefined) begun = { running: this.#begin(work, given) }
      else this.#wrong('span', 'called its work a second time')
      return begun.running
    }
    try {
      const answered: unknown = this.#telemetry.span(span, begin)
      this.#settled('span', answered, begun?.running)
      if (begun !== undefined && answered !== begun.running) this.#watch(answered, begun.running)
    } catch (error) {
      this.#reports.failed('span', error)
    }
    if (begun === undefined) this.#wrong('span', 'returned without having called its work')
    return begun === undefined ? begin(undefined) : begun.running
  }

  count(metric: CounterName, value: number, attributes: Attributes): void {
    this.#call('count', () => this.#telemetry.count(metric, value, attributes))
  }

  record(metric: HistogramName, seconds: number, attributes: Attributes): void {
    this.#call('record', () => this.#telemetry.record(metric, seconds, attributes))
  }

  /** Several readers of one gauge are one reader for the telemetry. */
  observe(metric: GaugeName, read: ReadGauge): () => void {
    const joined = this.#gauges.get(metric) ?? this.#observeJoined(metric)
    const remove = joined.gauge.add(read)
    return () => {
      remove()
      if (!joined.gauge.isEmpty || this.#gauges.get(metric) !== joined) return
      this.#gauges.delete(metric)
      joined.end()
    }
  }

  #observeJoined(metric: GaugeName): Joined {
    const gauge = new JoinedGauge(metric)
    const end: unknown = this.#call('observe', () => this.#telemetry.observe(metric, () => gauge.read()))
    if (typeof end !== 'function') this.#wrong('observe', `answered ${nameOf(end)}, and no function`)
    const ends = typeof end === 'function' ? (end as () => void) : () => undefined
    const joined = { gauge, end: () => void this.#call('observe', ends) }
    this.#gauges.set(metric, joined)
    return joined
  }

  /** Begins the work. An error of the work is no mistake of the telemetry. */
  #begin<R>(work: (handle: SpanHandle) => Promise<R>, given: unknown): Promise<R> {
    const handle: SpanHandle = {
      set: (attributes) => this.#forward(given, 'set', attributes),
      failed: (error) => this.#forward(given, 'failed', error),
    }
    // The async function turns an error that `work` throws into a rejection.
    return (async () => work(handle))()
  }

  #forward(given: unknown, name: keyof SpanHandle, value: unknown): void {
    // A telemetry without a handle was reported when the work began.
    if (given === undefined) return
    this.#call(`span, its handle's ${name}`, () =>
      (given as Readonly<Record<string, (value: unknown) => unknown>>)[name]!(value),
    )
  }

  #call(hook: string, call: () => unknown): unknown {
    try {
      const answer = call()
      this.#settled(hook, answer)
      return answer
    } catch (error) {
      this.#reports.failed(hook, error)
      return undefined
    }
  }

  /**
   * Handles the rejection of a promise of the telemetry, which would end the process otherwise. The promise of a span may reject as
   * its work does.
   */
  #settled(hook: string, answer: unknown, work?: Promise<unknown>): void {
    if (answer === undefined || answer === work || typeof propertyOf(answer, 'then') !== 'function') return
    Promise.resolve(answer).catch(async (error: unknown) => {
      const ofWork = await work?.then(
        () => undefined,
        (thrown: unknown) => ({ thrown }),
      )
      if (ofWork === undefined || ofWork.thrown !== error) this.#reports.failed(hook, error)
    })
  }

  /** Reports a span that hangs. One span at a time is watched, because a telemetry that hangs does so again. */
  #watch(answer: unknown, work: Promise<unknown>): void {
    if (this.#isWatching || typeof propertyOf(answer, 'then') !== 'function') return
    this.#isWatching = true
    let hasSettled = false
    const settled = (): void => void (hasSettled = true)
    Promise.resolve(answer).then(settled, settled)
    const judge = (): void => {
      this.#isWatching = false
      if (!hasSettled) this.#wrong('span', `has not settled ${HANGS_AFTER_MS / 1000} s after its work`)
    }
    const ended = (): void => void setTimeout(judge, HANGS_AFTER_MS).unref()
    work.then(ended, ended)
  }

  #wrong(hook: string, what: string): undefined {
    this.#reports.wrong(hook, what)
    return undefined
  }
}
