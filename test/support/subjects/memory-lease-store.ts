import type { Lease, LeaseHolder, LeaseRequest, LeaseStore } from '@txbox/core/ports'

interface Row {
  term: bigint
  owner: string | undefined
  expiresAt: number
  crashes: number
  inFlight: string | undefined
}

/** The table of leases of several processes, on a clock that the test moves. */
export class MemoryLeases {
  readonly rows = new Map<string, Row>()
  now = 0

  ownersOf(prefix: string): readonly string[] {
    return [...this.rows].flatMap(([name, { owner }]) =>
      name.startsWith(prefix) && owner !== undefined && this.isHeld(name) ? [owner] : [],
    )
  }

  isHeld(name: string): boolean {
    const row = this.rows.get(name)
    return row?.owner !== undefined && row.expiresAt > this.now
  }
}

/** The lease store of one process. */
export class MemoryLeaseStore implements LeaseStore {
  readonly calls: string[] = []
  /** Called before each answer of `acquire`. */
  beforeAnswer: () => Promise<void> = async () => undefined
  beforeRenewal: () => Promise<void> = async () => undefined
  readonly #leases: MemoryLeases

  constructor(leases: MemoryLeases) {
    this.#leases = leases
  }

  async acquire(
    names: readonly string[],
    { owner, ttlMs, limit }: LeaseRequest & { limit: number },
  ): Promise<readonly Lease[]> {
    this.calls.push(`acquire ${names.length}`)
    const { rows, now } = this.#leases
    const free = names.filter((name) => !this.#leases.isHeld(name)).slice(0, limit)
    const acquired = free.map((name) => {
      const row = rows.get(name) ?? {
        term: 0n,
        owner: undefined,
        expiresAt: 0,
        crashes: 0,
        inFlight: undefined,
      }
      const crashes = row.crashes + (row.owner === undefined ? 0 : 1)
      const term = row.term + 1n
      rows.set(name, { ...row, owner, term, crashes, expiresAt: now + ttlMs })
      return { name, owner, term, crashes, inFlight: row.inFlight }
    })
    await this.beforeAnswer()
    return acquired
  }

  async renew(leases: readonly Lease[], ttlMs: number): Promise<readonly Lease[]> {
    this.calls.push(`renew ${leases.length}`)
    await this.beforeRenewal()
    const renewed = leases.filter((lease) => this.#holds(lease) && this.#leases.isHeld(lease.name))
    for (const { name } of renewed) this.#leases.rows.get(name)!.expiresAt = this.#leases.now + ttlMs
    return renewed
  }

  async release(leases: readonly Lease[], cutOff: ReadonlySet<Lease> = new Set()): Promise<void> {
    this.calls.push(`release ${leases.length}`)
    for (const lease of leases.filter((one) => this.#holds(one))) {
      const row = this.#leases.rows.get(lease.name)!
      this.#leases.rows.set(lease.name, {
        ...row,
        owner: undefined,
        expiresAt: 0,
        crashes: row.crashes + (cutOff.has(lease) ? 1 : 0),
      })
    }
  }

  async holders(prefix: string): Promise<readonly LeaseHolder[]> {
    this.calls.push(`holders ${prefix}`)
    return [...this.#leases.rows].flatMap(([name, { owner }]) =>
      name.startsWith(prefix) && owner !== undefined && this.#leases.isHeld(name) ? [{ name, owner }] : [],
    )
  }

  async sweep(prefix: string, olderThanMs: number): Promise<void> {
    this.calls.push(`sweep ${prefix}`)
    for (const [name, { owner, expiresAt }] of this.#leases.rows) {
      const isUnused = owner === undefined || expiresAt < this.#leases.now - olderThanMs
      if (name.startsWith(prefix) && isUnused) this.#leases.rows.delete(name)
    }
  }

  async close(): Promise<void> {
    this.calls.push('close')
  }

  #holds({ name, owner, term }: Lease): boolean {
    const row = this.#leases.rows.get(name)
    return row?.owner === owner && row.term === term
  }
}
