import {
  ValueType,
  metrics,
  type Counter,
  type Histogram,
  type Meter,
  type MetricOptions,
  type ObservableGauge,
} from '@opentelemetry/api'
import type { CounterName, GaugeName, HistogramName, Observation } from '@txbox/core'
import { BUCKETS, metricText } from '@txbox/core/internal'
import { ObservedGauge } from './observed-gauge.ts'

/** How often gauges look for the SDK, which may start later than txbox. */
const LOOK_MS = 1000

/** The name of the scope of all spans and metrics. */
export const INSTRUMENTATION = '@txbox/opentelemetry'

/**
 * The instruments of a meter, made at first use. Without a given meter, that of the global provider is looked up at each use, so that
 * an SDK may start later than txbox.
 */
export class Instruments {
  readonly #given: Meter | undefined
  readonly #gauges = new Set<ObservedGauge>()
  #looking: NodeJS.Timeout | undefined
  #provider: unknown
  #meter: Meter | undefined
  #counters = new Map<CounterName, Counter>()
  #histograms = new Map<HistogramName, Histogram>()
  #observables = new Map<GaugeName, ObservableGauge>()

  constructor(meter: Meter | undefined) {
    this.#given = meter
  }

  counter(metric: CounterName): Counter {
    const meter = this.#current()
    let counter = this.#counters.get(metric)
    if (counter === undefined) {
      counter = meter.createCounter(metric, described('counter', metric))
      this.#counters.set(metric, counter)
    }
    return counter
  }

  histogram(metric: HistogramName): Histogram {
    const meter = this.#current()
    let histogram = this.#histograms.get(metric)
    if (histogram === undefined) {
      histogram = meter.createHistogram(metric, {
        ...described('histogram', metric),
        valueType: ValueType.DOUBLE,
        advice: { explicitBucketBoundaries: BUCKETS },
      })
      this.#histograms.set(metric, histogram)
    }
    return histogram
  }

  /** @returns a function that ends the gauge. */
  observe(metric: GaugeName, read: () => Promise<readonly Observation[]>): () => void {
    const gauge = new ObservedGauge(metric, read)
    // The meter may be another one now, which gets the gauges that there are.
    this.#current()
    const observable = this.#observable(metric)
    this.#gauges.add(gauge)
    gauge.exportBy(observable)
    // Nothing else may happen for a long time.
    if (this.#given === undefined) this.#looking ??= setInterval(() => this.#current(), LOOK_MS).unref()
    return () => {
      this.#gauges.delete(gauge)
      if (this.#gauges.size === 0) {
        clearInterval(this.#looking)
        this.#looking = undefined
      }
      gauge.end()
    }
  }

  #current(): Meter {
    if (this.#given !== undefined) return (this.#meter ??= this.#given)
    const provider = metrics.getMeterProvider()
    if (this.#meter === undefined || provider !== this.#provider) {
      this.#provider = provider
      this.#meter = provider.getMeter(INSTRUMENTATION)
      this.#counters = new Map()
      this.#histograms = new Map()
      this.#observables = new Map()
      for (const gauge of this.#gauges) gauge.exportBy(this.#observable(gauge.metric))
    }
    return this.#meter
  }

  #observable(metric: GaugeName): ObservableGauge {
    let observable = this.#observables.get(metric)
    if (observable === undefined) {
      observable = this.#meter!.createObservableGauge(metric, described('gauge', metric))
      this.#observables.set(metric, observable)
    }
    return observable
  }
}

function described(...about: Parameters<typeof metricText>): MetricOptions {
  const { unit, help } = metricText(...about)
  return { unit, description: help }
}
