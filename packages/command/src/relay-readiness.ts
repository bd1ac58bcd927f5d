import type { InspectionStore } from '@txbox/core/ports'
import { PublisherState, reasonOf, within } from '@txbox/core/internal'
import type { Publisher, Relay } from '@txbox/relay'
import { PROBE_TIMEOUT_MS, databaseProbe } from './database-probe.ts'
import { OK, type Health, type HealthChecks } from './health-server.ts'

const NOT_PUBLISHING = 'the publisher does not accept messages'

/** The health checks of a relay. The reasons contain no address and no password. */
export class RelayReadiness implements HealthChecks {
  readonly #publisher: PublisherState
  readonly #databaseHealth: () => Promise<Health>
  #ended = false

  /** @param failed called with the reason each time a check of the publisher fails. */
  constructor(
    relay: Relay,
    publisher: Publisher,
    inspection: InspectionStore,
    failed: (reason: string) => void,
  ) {
    this.#publisher = new PublisherState(publisher, (error) => failed(reasonOf(error)))
    this.#databaseHealth = databaseProbe(inspection)
    const end = (): void => void (this.#ended = true)
    relay.stopped.then(end, end)
    relay.on('unavailable', () => this.#publisher.seen(false))
    relay.on('published', () => this.#publisher.seen(true))
    // The first check begins now.
    this.#publisher.isUp()
  }

  live(): Health {
    return this.#ended ? { ok: false, reason: 'the relay has ended' } : OK
  }

  /** Fails if the relay has ended, the broker does not accept messages, or the database does not answer. */
  async ready(): Promise<Health> {
    const live = this.live()
    if (!live.ok) return live
    const publisher = await this.#publisherHealth()
    return publisher.ok ? this.#databaseHealth() : publisher
  }

  /** Returns the result of the last check without waiting; `undefined` before the first check of the publisher has ended. */
  isPublisherUp(): boolean | undefined {
    return this.#publisher.isUp()
  }

  async #publisherHealth(): Promise<Health> {
    if (this.#publisher.isUp() === undefined && this.#publisher.checking !== undefined) {
      await within(this.#publisher.checking, PROBE_TIMEOUT_MS, () => undefined, { ref: false })
    }
    return this.#publisher.isUp() === true ? OK : { ok: false, reason: NOT_PUBLISHING }
  }
}
