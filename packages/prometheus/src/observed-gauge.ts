import type { Observation } from '@txbox/core'
import { within } from '@txbox/core/internal'
import { labelsOf, type Sample } from './text-format.ts'

const LATE = Symbol('late')

/** A gauge that is read at each scrape. One that does not answer in time, or fails, keeps its last values. */
export class ObservedGauge {
  readonly #read: () => Promise<readonly Observation[]>
  #reading: Promise<void> | undefined
  #last: readonly Sample[] = []
  #isStale = true

  constructor(read: () => Promise<readonly Observation[]>) {
    this.#read = read
  }

  get samples(): readonly Sample[] {
    return this.#last
  }

  /** @returns whether the values are new. A reading that is late goes on, and no further one begins before it has ended. */
  async refresh(withinMs: number): Promise<boolean> {
    this.#reading ??= this.#readOnce().finally(() => (this.#reading = undefined))
    const late = await within(this.#reading, withinMs, () => LATE, { ref: false })
    return late !== LATE && !this.#isStale
  }

  async #readOnce(): Promise<void> {
    try {
      const observations = await this.#read()
      this.#last = observations.map(({ value, attributes }) => {
        if (typeof value !== 'number') throw new TypeError('The value of a gauge is a number.')
        return { labels: labelsOf(attributes), value }
      })
      this.#isStale = false
    } catch {
      // The metrics are marked as stale. The function that reads reports its errors itself.
      this.#isStale = true
    }
  }
}
