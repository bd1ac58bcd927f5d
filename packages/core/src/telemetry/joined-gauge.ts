import type { GaugeName } from './names.ts'
import type { Attributes, Observation } from './telemetry.ts'

export type ReadGauge = () => Promise<readonly Observation[]>

/**
 * The readers of one gauge in this process, such as those of two relays, as one reader: a time series may have one value only. Of
 * values with the same attributes the sum counts; of ages the highest, and of a publisher that is up or not the lowest.
 */
export class JoinedGauge {
  readonly #join: (a: number, b: number) => number
  readonly #readers = new Set<ReadGauge>()

  constructor(metric: GaugeName) {
    this.#join = joiningOf(metric)
  }

  get isEmpty(): boolean {
    return this.#readers.size === 0
  }

  /** @returns a function that removes the reader. */
  add(read: ReadGauge): () => void {
    // A function of its own: the same reader may be added twice.
    const own: ReadGauge = async () => read()
    this.#readers.add(own)
    return () => void this.#readers.delete(own)
  }

  /** Returns the values of all readers. A reader that fails reports that itself, and the values of the other readers remain. */
  async read(): Promise<readonly Observation[]> {
    const read = await Promise.allSettled([...this.#readers].map((reader) => reader()))
    const joined = new Map<string, Observation>()
    for (const one of read) {
      for (const observation of one.status === 'fulfilled' ? one.value : []) {
        const series = seriesOf(observation.attributes)
        const before = joined.get(series)
        const value = before === undefined ? observation.value : this.#join(before.value, observation.value)
        joined.set(series, { ...observation, value })
      }
    }
    return [...joined.values()]
  }
}

function joiningOf(metric: GaugeName): (a: number, b: number) => number {
  if (metric.endsWith('.age')) return Math.max
  return metric === 'txbox.relay.publisher.up' ? Math.min : (a, b) => a + b
}

/** The identity of a time series among those of one metric. */
export function seriesOf(attributes: Attributes): string {
  return JSON.stringify(Object.entries(attributes).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
