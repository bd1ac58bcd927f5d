import { telemetryKey, type GaugeName, type Observation, type Telemetry } from '@txbox/core'
import { onTestFinished } from 'vitest'
import { StubTelemetry } from './stub-telemetry.ts'

/** A telemetry that reads its gauges when the test asks, as the reader of an SDK does. */
export class GaugesUnderTest extends StubTelemetry {
  readonly #gauges = new Map<GaugeName, Set<() => Promise<readonly Observation[]>>>()

  override observe(...[metric, read]: Partial<Parameters<Telemetry['observe']>>): () => void {
    const readers = this.#gauges.get(metric!) ?? new Set()
    this.#gauges.set(metric!, readers.add(read!))
    return () => void readers.delete(read!)
  }

  /** The number of gauges that are not ended. */
  get size(): number {
    return [...this.#gauges.values()].reduce((sum, { size }) => sum + size, 0)
  }

  /** The readers of a gauge. */
  readersOf(metric: GaugeName): readonly (() => Promise<readonly Observation[]>)[] {
    return [...(this.#gauges.get(metric) ?? [])]
  }

  /** All observations of a gauge. */
  async all(metric: GaugeName): Promise<readonly Observation[]> {
    const read = await Promise.all(this.readersOf(metric).map((reader) => reader()))
    return read.flat()
  }

  /** The value of the series that has exactly these attributes; `undefined` if there is none. */
  async value(metric: GaugeName, attributes: object = {}): Promise<number | undefined> {
    const wanted = JSON.stringify(attributes)
    const found = (await this.all(metric)).filter((one) => JSON.stringify(one.attributes) === wanted)
    if (found.length > 1) throw new Error(`${metric} has ${found.length} values for ${wanted}.`)
    return found[0]?.value
  }

  /** Registers this telemetry for the process until the test ends. */
  register(): this {
    Object.assign(globalThis, { [telemetryKey]: this })
    onTestFinished(() => void Object.assign(globalThis, { [telemetryKey]: undefined }))
    return this
  }
}
