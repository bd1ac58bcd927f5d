import { setTimeout as pause } from 'node:timers/promises'
import type { InspectionStore } from '@txbox/core'
import { reasonOf } from '@txbox/core/internal'
import type { Publisher, Relay } from '@txbox/relay'
import type { Health, HealthChecks } from './health-server.ts'

/** The time limit of a probe, in ms: an orchestrator waits for about a second. */
const WITHIN_MS = 2000
/** The minimum time between checks of the publisher while nothing is published, in milliseconds. */
const CHECK_EVERY_MS = 10_000
const CHECK_WITHIN_MS = 10_000

const OK: Health = { ok: true }
const NOT_PUBLISHING = 'the publisher does not take messages'

/** Answers probes for a relay. The reasons hold no address and no password. */
export class RelayReadiness implements HealthChecks {
  readonly #publisher: Publisher
  readonly #inspection: InspectionStore
  readonly #failed: (reason: string) => void
  /** The last known state of the publisher, and its time. */
  #known: { readonly up: boolean; readonly at: number } | undefined
  #checking: Promise<void> | undefined
  #checkedAt = -Infinity
  #asking: Promise<Health> | undefined
  #ended = false

  /** `failed` is called with the reason each time that the publisher says that it is not ready. */
  constructor(
    relay: Relay,
    publisher: Publisher,
    inspection: InspectionStore,
    failed: (reason: string) => void,
  ) {
    this.#publisher = publisher
    this.#inspection = inspection
    this.#failed = failed
    const end = (): void => void (this.#ended = true)
    relay.stopped.then(end, end)
    relay.on('unavailable', () => (this.#known = { up: false, at: performance.now() }))
    relay.on('published', () => (this.#known = { up: true, at: performance.now() }))
    this.#check()
  }

  /** Is the relay alive? It has not ended, and this process is able to answer. */
  live(): Health {
    return this.#ended ? { ok: false, reason: 'the relay has ended' } : OK
  }

  /** Is the relay ready? It has not ended, the broker takes messages, and the database answers. */
  async ready(): Promise<Health> {
    const live = this.live()
    if (!live.ok) return live
    const publisher = await this.#publisherHealth()
    return publisher.ok ? this.#databaseHealth() : publisher
  }

  async #publisherHealth(): Promise<Health> {
    const now = performance.now()
    const stale = this.#known === undefined || now - this.#known.at >= CHECK_EVERY_MS
    if (stale && now - this.#checkedAt >= CHECK_EVERY_MS) this.#check()
    if (this.#known === undefined && this.#checking !== undefined) {
      await Promise.race([this.#checking, pause(WITHIN_MS, undefined, { ref: false })])
    }
    if (this.#publisher.check === undefined && this.#known === undefined) return OK
    return this.#known?.up === true ? OK : { ok: false, reason: NOT_PUBLISHING }
  }

  /** Runs one check at a time. A state that the relay itself reports meanwhile takes precedence. */
  #check(): void {
    const publisher = this.#publisher
    if (publisher.check === undefined || this.#checking !== undefined || this.#ended) return
    const startedAt = performance.now()
    this.#checkedAt = startedAt
    const found = (up: boolean): void => {
      if ((this.#known?.at ?? -Infinity) <= startedAt) this.#known = { up, at: performance.now() }
    }
    const asked = async (): Promise<void> =>
      publisher.check?.({ signal: AbortSignal.timeout(CHECK_WITHIN_MS) })
    this.#checking = asked().then(
      () => found(true),
      (error: unknown) => {
        found(false)
        this.#failed(reasonOf(error))
      },
    )
    void this.#checking.finally(() => (this.#checking = undefined))
  }

  /** However many probes arrive, only one query at a time goes to the database. */
  #databaseHealth(): Promise<Health> {
    this.#asking ??= this.#inspection
      .answers(WITHIN_MS)
      .then(
        (): Health => OK,
        (): Health => ({
          ok: false,
          reason: 'the database does not answer, or its tables are of another revision',
        }),
      )
      .finally(() => (this.#asking = undefined))
    return this.#asking
  }
}
