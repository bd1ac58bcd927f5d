import { PublisherState, observeTables, whileInUse } from '@txbox/core/internal'
import type { RelaySettings } from './options/relay-options.ts'

/** The gauges of one run of a relay. */
export interface RunGauges {
  /** Must be called when the stop begins: another process may read the tables. Never rejects, but may never resolve. */
  endTables(): Promise<void>
  /** Must be called when the run ends. */
  endOwn(): void
}

/** The gauges of a relay: its shards, whether its publisher accepts messages, and those of the tables of its database. */
export class RelayGauges {
  readonly #settings: RelaySettings
  readonly #publisher: PublisherState

  constructor(settings: RelaySettings) {
    this.#settings = settings
    this.#publisher = new PublisherState(settings.publisher)
    settings.events.tap((event) => {
      if (event === 'published') this.#publisher.seen(true)
      else if (event === 'unavailable') this.#publisher.seen(false)
    })
  }

  /**
   * Must be called when a run begins.
   *
   * @param shards returns how many shards the run holds.
   */
  begin(shards: () => number): RunGauges {
    const { ports, telemetry } = this.#settings
    const endOwn = whileInUse(telemetry, (inUse) => {
      const ends = [
        inUse.observe('txbox.relay.shards', async () => [{ value: shards(), attributes: {} }]),
        inUse.observe('txbox.relay.publisher.up', async () => {
          const isUp = this.#publisher.isUp()
          return isUp === undefined ? [] : [{ value: isUp ? 1 : 0, attributes: {} }]
        }),
      ]
      return () => ends.forEach((end) => end())
    })
    return { endTables: observeTables(ports, telemetry), endOwn }
  }
}
