import type { Lease, LeaseStore } from '../ports/lease-store.ts'

/**
 * Releases leases. Leases that could not be released because the database was unavailable are released with the next
 * ones.
 */
export class LeaseReturns {
  readonly #store: LeaseStore
  readonly #onError: (error: unknown) => void
  #owed: readonly Lease[] = []
  /** The leases among them under which a call was cut off. */
  readonly #cutOff = new Set<Lease>()

  constructor(store: LeaseStore, onError: (error: unknown) => void) {
    this.#store = store
    this.#onError = onError
  }

  /** Releases leases with one statement, because there may be no time for two before a deadline. */
  async giveBack(leases: readonly Lease[], cutOff: readonly Lease[] = []): Promise<void> {
    const all = [...this.#owed, ...leases]
    if (all.length === 0) return
    for (const lease of cutOff) this.#cutOff.add(lease)
    this.#owed = []
    // The connection may have failed: the second attempt opens another one. If that fails as well, the next round tries
    // again, or the leases expire by themselves. The caller must not wait for that.
    const release = (): Promise<void> => this.#store.release(all, this.#cutOff)
    await release()
      .catch(release)
      .then(() => all.forEach((lease) => this.#cutOff.delete(lease)))
      .catch((error: unknown) => {
        this.#owed = [...this.#owed, ...all]
        this.#onError(error)
      })
  }
}
