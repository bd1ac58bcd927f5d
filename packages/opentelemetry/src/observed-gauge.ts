import type { Attributes as ApiAttributes, ObservableGauge, ObservableResult } from '@opentelemetry/api'
import type { GaugeName, Observation } from '@txbox/core'
import { seriesOf } from '@txbox/core/internal'

/**
 * A gauge that is read at each export. A time series that has no value any more is 0 once: an SDK with cumulative temporality, which is
 * the usual one, would go on to export its last value. An SDK that follows the specification then exports nothing.
 */
export class ObservedGauge {
  readonly metric: GaugeName
  readonly #read: () => Promise<readonly Observation[]>
  /** The series that had a value at the last export. */
  #series: ReadonlyMap<string, ApiAttributes> = new Map()
  #hasEnded = false

  constructor(metric: GaugeName, read: () => Promise<readonly Observation[]>) {
    this.metric = metric
    this.#read = read
  }

  /** Must be called with each instrument that is to export the gauge. */
  exportBy(instrument: ObservableGauge): void {
    const callback = async (result: ObservableResult): Promise<void> => {
      const isLast = this.#hasEnded
      await this.#observe(result)
      // Not before: the SDK is going through its callbacks, and would skip the next one.
      if (isLast) instrument.removeCallback(callback)
    }
    instrument.addCallback(callback)
  }

  /** The next export is the last one. */
  end(): void {
    this.#hasEnded = true
  }

  async #observe(result: ObservableResult): Promise<void> {
    const before = this.#series
    const observations = this.#hasEnded ? [] : await this.#read()
    const series = new Map<string, ApiAttributes>()
    for (const { value, attributes } of observations) {
      result.observe(value, attributes)
      series.set(seriesOf(attributes), attributes)
    }
    this.#series = series
    // Whether a publisher is up is not known without a relay.
    if (this.metric === 'txbox.relay.publisher.up') return
    for (const [key, attributes] of before) if (!series.has(key)) result.observe(0, attributes)
  }
}
