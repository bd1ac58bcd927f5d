import type { Lease, LeaseStore } from '../ports/lease-store.ts'
import { trustFrom, type Clock, type Trust } from './lease-trust.ts'

interface Settings {
  readonly name: string
  readonly owner: string
  readonly leaseMs: number
  readonly clock: Clock
}

/** A lease for work that one process at a time does, with pauses. Between `rest` and the next `hold`, the lease uses no connection. */
export class SingleLease {
  readonly #openStore: () => LeaseStore
  readonly #settings: Settings
  #store: LeaseStore | undefined
  #lease: Lease | undefined
  #trust: Trust = { holds: () => false }
  #renewedAt = -Infinity

  constructor(openStore: () => LeaseStore, settings: Settings) {
    this.#openStore = openStore
    this.#settings = settings
  }

  /** Whether this process is sure that no other one has the lease. */
  get isTrusted(): boolean {
    return this.#lease !== undefined && this.#trust.holds()
  }

  /**
   * Acquires the lease, or renews it once a third of its time is over.
   *
   * @returns whether this process holds the lease.
   * @throws the error of the database. A lease that could not be renewed is trusted until its end.
   */
  async hold(): Promise<boolean> {
    const { name, owner, leaseMs: ttlMs, clock } = this.#settings
    const now = clock.monotonicMs()
    if (this.isTrusted && now - this.#renewedAt < ttlMs / 3) return true
    const store = (this.#store ??= this.#openStore())
    const trust = trustFrom(clock, ttlMs)
    if (this.#lease !== undefined) [this.#lease] = await store.renew([this.#lease], ttlMs)
    if (this.#lease === undefined) [this.#lease] = await store.acquire([name], { owner, ttlMs, limit: 1 })
    this.#trust = trust
    this.#renewedAt = now
    return this.isTrusted
  }

  /** Gives the connection back. The next use takes a connection again. */
  async rest(): Promise<void> {
    await this.#store?.close()
  }

  /** @throws the error of the database. The lease then ends by itself. */
  async release(): Promise<void> {
    const lease = this.#lease
    this.#lease = undefined
    try {
      if (lease !== undefined) await this.#store?.release([lease])
    } finally {
      await this.rest()
    }
  }
}
