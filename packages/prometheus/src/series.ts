import type { Attributes } from '@txbox/core'
import { labelsOf, withBound, type Family, type MetricKind, type Sample } from './text-format.ts'

/** The most time series of one metric, as in the SDKs of OpenTelemetry. All further ones share one more series. */
const MOST_SERIES = 2000
const OVERFLOW = labelsOf({ 'otel.metric.overflow': 'true' })

/** The series of one metric, by their labels. */
abstract class Series<V> {
  readonly name: string
  readonly help: string
  abstract readonly kind: MetricKind
  readonly #values = new Map<string, V>()

  constructor(name: string, help: string) {
    this.name = name
    this.help = help
  }

  abstract samplesOf(labels: string, value: V): readonly Sample[]

  family(): Family {
    const { name, kind, help } = this
    const samples = [...this.#values].flatMap(([labels, value]) => this.samplesOf(labels, value))
    return { name, kind, help, samples }
  }

  protected change(attributes: Attributes, change: (before: V | undefined) => V): void {
    const given = labelsOf(attributes)
    const labels = this.#values.has(given) || this.#values.size < MOST_SERIES ? given : OVERFLOW
    this.#values.set(labels, change(this.#values.get(labels)))
  }
}

export class CounterSeries extends Series<number> {
  readonly kind = 'counter'

  add(value: number, attributes: Attributes): void {
    this.change(attributes, (before = 0) => before + value)
  }

  samplesOf(labels: string, value: number): readonly Sample[] {
    return [{ labels, value }]
  }
}

interface Recorded {
  /** The number of durations in each bucket, and beyond the last. */
  readonly counts: number[]
  sum: number
}

export class HistogramSeries extends Series<Recorded> {
  readonly kind = 'histogram'
  readonly #bounds: readonly number[]

  /** @param bounds the upper bounds of the buckets, growing. */
  constructor(name: string, help: string, bounds: readonly number[]) {
    super(name, help)
    this.#bounds = bounds
  }

  record(value: number, attributes: Attributes): void {
    this.change(attributes, (before) => {
      const recorded = before ?? { counts: Array.from({ length: this.#bounds.length + 1 }, () => 0), sum: 0 }
      const found = this.#bounds.findIndex((bound) => value <= bound)
      const bucket = found < 0 ? this.#bounds.length : found
      recorded.counts[bucket] = recorded.counts[bucket]! + 1
      recorded.sum += value
      return recorded
    })
  }

  samplesOf(labels: string, { counts, sum }: Recorded): readonly Sample[] {
    let count = 0
    const buckets = counts.map((inBucket, n) => {
      count += inBucket
      return { suffix: '_bucket', labels: withBound(labels, this.#bounds[n] ?? Infinity), value: count }
    })
    return [...buckets, { suffix: '_sum', labels, value: sum }, { suffix: '_count', labels, value: count }]
  }
}
