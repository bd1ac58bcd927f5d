import type { Attributes, CounterName, GaugeName, HistogramName, SpanHandle, Telemetry } from '@txbox/core'
import { BUCKETS, OptionChecker, metricText, withoutDestination } from '@txbox/core/internal'
import { ObservedGauge } from './observed-gauge.ts'
import { CounterSeries, HistogramSeries } from './series.ts'
import { formatted, labelsOf, prometheusName, type Family, type Sample } from './text-format.ts'

export interface PrometheusTelemetryOptions {
  /**
   * Attributes of the process, which are the labels of `target_info`, such as `{ 'service.name': 'shop' }`. Numbers and flags are
   * written as text. @default { 'service.name': 'unknown_service:node' }
   */
  resource?: Attributes | undefined
  /**
   * How long `text()` waits for gauges that are read from a database, 10 to 60,000 milliseconds. A gauge that is late keeps its last
   * values, and `txbox_metrics_stale` is 1. @default 2000
   */
  timeoutMs?: number | undefined
}

/** Metrics of txbox for Prometheus, without an SDK of OpenTelemetry. There are no traces. */
export interface PrometheusTelemetry extends Telemetry {
  /** The value of the header `content-type` of the answer to a scrape. */
  readonly contentType: string
  /**
   * The metrics in the text format 0.0.4. Never rejects, and resolves within `timeoutMs`, with all values that are known.
   */
  text(): Promise<string>
}

/** The handle of work without a span. */
const NO_SPAN: SpanHandle = { set: () => undefined, failed: () => undefined }

const STALE =
  'Whether some gauges are not from this scrape, because they could not be read in time: 1, else 0.'

/**
 * Keeps the metrics of txbox in this process, and writes them for Prometheus. Pass the result to the option `telemetry`, and answer
 * scrapes with `text()`. The names follow the rules of OpenTelemetry: `txbox.oldest_due.age` is `txbox_oldest_due_age_seconds`. A
 * metric has at most 2000 time series; further ones are counted together in one with the label `otel_metric_overflow`.
 *
 * @throws {InvalidOptionError} for an unknown or wrong option.
 */
export function prometheusTelemetry(options: PrometheusTelemetryOptions = {}): PrometheusTelemetry {
  const check = new OptionChecker('prometheusTelemetry', options).known('resource', 'timeoutMs')
  const timeoutMs = check.milliseconds('timeoutMs', { min: 10, max: 60_000, default: 2000 })
  const { resource = { 'service.name': 'unknown_service:node' } } = options
  if (typeof resource !== 'object' || resource === null || Array.isArray(resource)) {
    throw check.wrong('resource', "an object of attributes, such as { 'service.name': 'shop' }")
  }
  return new Metrics(labelsOf(resource), timeoutMs)
}

class Metrics implements PrometheusTelemetry {
  readonly contentType = 'text/plain; version=0.0.4; charset=utf-8'
  readonly #resource: string
  readonly #timeoutMs: number
  readonly #counters = new Map<CounterName, CounterSeries>()
  readonly #histograms = new Map<HistogramName, HistogramSeries>()
  readonly #gauges = new Map<GaugeName, Set<ObservedGauge>>()

  constructor(resource: string, timeoutMs: number) {
    this.#resource = resource
    this.#timeoutMs = timeoutMs
  }

  capture(): undefined {
    return undefined
  }

  span<R>(_: unknown, work: (handle: SpanHandle) => Promise<R>): Promise<R> {
    return work(NO_SPAN)
  }

  count(metric: CounterName, value: number, attributes: Attributes): void {
    if (!(value >= 0 && Number.isFinite(value))) throw new RangeError(`${metric} cannot grow by ${value}.`)
    let series = this.#counters.get(metric)
    if (series === undefined) {
      const { unit, help } = metricText('counter', metric)
      series = new CounterSeries(prometheusName(metric, unit, 'counter'), help)
      this.#counters.set(metric, series)
    }
    series.add(value, withoutDestination(attributes))
  }

  record(metric: HistogramName, seconds: number, attributes: Attributes): void {
    if (!(seconds >= 0 && Number.isFinite(seconds)))
      throw new RangeError(`${metric} cannot record ${seconds}.`)
    let series = this.#histograms.get(metric)
    if (series === undefined) {
      const { unit, help } = metricText('histogram', metric)
      series = new HistogramSeries(prometheusName(metric, unit, 'histogram'), help, BUCKETS)
      this.#histograms.set(metric, series)
    }
    series.record(seconds, withoutDestination(attributes))
  }

  observe(metric: GaugeName, read: Parameters<Telemetry['observe']>[1]): () => void {
    // `text` never rejects, so that one wrong name does not hide all other metrics.
    metricText('gauge', metric)
    const gauge = new ObservedGauge(read)
    const ofMetric = this.#gauges.get(metric) ?? new Set()
    this.#gauges.set(metric, ofMetric.add(gauge))
    return () => void ofMetric.delete(gauge)
  }

  async text(): Promise<string> {
    const gauges = [...this.#gauges.values()].flatMap((ofMetric) => Array.from(ofMetric))
    const refreshed = await Promise.all(gauges.map((gauge) => gauge.refresh(this.#timeoutMs)))
    const isStale = refreshed.includes(false)
    return formatted([
      family('target_info', 'Attributes of the process.', [{ labels: this.#resource, value: 1 }]),
      ...[...this.#gauges].map(([metric, ofMetric]) => gaugeFamily(metric, ofMetric)),
      ...[...this.#counters.values(), ...this.#histograms.values()].map((series) => series.family()),
      family('txbox_metrics_stale', STALE, [{ labels: '', value: isStale ? 1 : 0 }]),
    ])
  }
}

function gaugeFamily(metric: GaugeName, gauges: ReadonlySet<ObservedGauge>): Family {
  const { unit, help } = metricText('gauge', metric)
  // Two gauges with the same labels would be an invalid text: the later one counts.
  const samples = new Map<string, Sample>()
  for (const gauge of gauges) for (const sample of gauge.samples) samples.set(sample.labels, sample)
  return family(prometheusName(metric, unit, 'gauge'), help, [...samples.values()])
}

function family(name: string, help: string, samples: readonly Sample[]): Family {
  return { name, kind: 'gauge', help, samples }
}
