import type { InspectionStore } from '@txbox/core/ports'
import { reasonOf, within } from '@txbox/core/internal'
import type { Publisher, Relay } from '@txbox/relay'
import { PROBE_TIMEOUT_MS, databaseProbe } from './database-probe.ts'
import { OK, type Health, type HealthChecks } from './health-server.ts'

/** The minimum time between checks of the publisher while nothing is published. */
const CHECK_EVERY_MS = 10_000
const CHECK_TIMEOUT_MS = 10_000

const NOT_PUBLISHING = 'the publisher does not accept messages'

/** The health checks of a relay. The reasons contain no address and no password. */
export class RelayReadiness implements HealthChecks {
  readonly #publisher: Publisher
  readonly #databaseHealth: () => Promise<Health>
  readonly #failed: (reason: string) => void
  #known: { readonly up: boolean; readonly at: number } | undefined
  #checking: Promise<void> | undefined
  #checkedAt = -Infinity
  #ended = false

  /** @param failed called with the reason each time a check of the publisher fails. */
  constructor(
    relay: Relay,
    publisher: Publisher,
    inspection: InspectionStore,
    failed: (reason: string) => void,
  ) {
    this.#publisher = publisher
    this.#databaseHealth = databaseProbe(inspection)
    this.#failed = failed
    const end = (): void => void (this.#ended = true)
    relay.stopped.then(end, end)
    relay.on('unavailable', () => (this.#known = { up: false, at: performance.now() }))
    relay.on('published', () => (this.#known = { up: true, at: performance.now() }))
    this.#check()
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
    this.#checkAgain()
    return this.#known?.up ?? (this.#publisher.check === undefined ? true : undefined)
  }

  async #publisherHealth(): Promise<Health> {
    this.#checkAgain()
    if (this.#known === undefined && this.#checking !== undefined) {
      await within(this.#checking, PROBE_TIMEOUT_MS, () => undefined, { ref: false })
    }
    if (this.#publisher.check === undefined && this.#known === undefined) return OK
    return this.#known?.up === true ? OK : { ok: false, reason: NOT_PUBLISHING }
  }

  #checkAgain(): void {
    const now = performance.now()
    const stale = this.#known === undefined || now - this.#known.at >= CHECK_EVERY_MS
    if (stale && now - this.#checkedAt >= CHECK_EVERY_MS) this.#check()
  }

  /**
   * Starts a check of the publisher, unless one is in flight. A state that the relay itself reports in the meantime
   * takes precedence.
   */
  #check(): void {
    const publisher = this.#publisher
    if (publisher.check === undefined || this.#checking !== undefined || this.#ended) return
    const startedAt = performance.now()
    this.#checkedAt = startedAt
    const found = (up: boolean): void => {
      if ((this.#known?.at ?? -Infinity) <= startedAt) this.#known = { up, at: performance.now() }
    }
    const asked = async (): Promise<void> =>
      publisher.check?.({ signal: AbortSignal.timeout(CHECK_TIMEOUT_MS) })
    this.#checking = asked().then(
      () => found(true),
      (error: unknown) => {
        found(false)
        this.#failed(reasonOf(error))
      },
    )
    void this.#checking.finally(() => (this.#checking = undefined))
  }
}
