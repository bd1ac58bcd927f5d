import type { Lease, LeaseStore } from '../ports/lease-store.ts'
import { trustFrom, type Clock, type Trust } from './lease-trust.ts'

interface Settings {
  readonly name: string
  /** The beginning of the names of leases that are signs for other processes. */
  readonly signs: string
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
  readonly #shown = new Map<string, Lease>()
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

  /**
   * Shows other processes a sign for the time of a lease, unless one of them shows it already.
   *
   * @throws the error of the database.
   */
  async show(sign: string): Promise<void> {
    const { signs, owner, leaseMs: ttlMs } = this.#settings
    const store = (this.#store ??= this.#openStore())
    const [shown] = await store.acquire([`${signs}${sign}`], { owner, ttlMs, limit: 1 })
    if (shown !== undefined) this.#shown.set(sign, shown)
  }

  /**
   * Whether another process shows a sign.
   *
   * @throws the error of the database.
   */
  async sees(sign: string): Promise<boolean> {
    const { signs, owner } = this.#settings
    const holders = await (this.#store ??= this.#openStore()).holders(`${signs}${sign}`)
    return holders.some((holder) => holder.owner !== owner)
  }

  /** Gives the connection back. The next use takes a connection again. */
  async rest(): Promise<void> {
    await this.#store?.close()
  }

  /**
   * Releases the lease, and shows no sign any more.
   *
   * @throws the error of the database. The lease and the signs then end by themselves.
   */
  async release(): Promise<void> {
    const leases = [...this.#shown.values(), ...(this.#lease === undefined ? [] : [this.#lease])]
    this.#lease = undefined
    this.#shown.clear()
    try {
      if (leases.length > 0) await this.#store?.release(leases)
    } finally {
      await this.rest()
    }
  }
}
