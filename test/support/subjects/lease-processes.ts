import type { HeldShard } from '../../../packages/core/src/leases/held-shard.ts'
import type { LeaseGroup } from '../../../packages/core/src/leases/lease-group.ts'
import { LeaseKeeper } from '../../../packages/core/src/leases/lease-keeper.ts'
import { LOCAL_LEASES } from '../../../packages/core/src/leases/lease-names.ts'
import { MemoryLeases, MemoryLeaseStore } from './memory-lease-store.ts'

export const LEASE_MS = 3000

/** Several processes with keepers of their own, on one table and one clock. */
export class Processes {
  readonly leases = new MemoryLeases()
  readonly #running: Process[] = []
  readonly clock = { monotonicMs: () => this.leases.now, wallMs: () => this.leases.now }

  start(owner: string): Process {
    const process = new Process(owner, this)
    this.#running.push(process)
    return process
  }

  /** As SIGKILL does. */
  kill(process: Process): void {
    this.#running.splice(this.#running.indexOf(process), 1)
  }

  async rounds(count: number): Promise<void> {
    for (let n = 0; n < count; n++) {
      for (const { keeper } of this.#running) await keeper.round()
      this.leases.now += 1000
    }
  }
}

export class Process {
  readonly store: MemoryLeaseStore
  readonly keeper: LeaseKeeper
  readonly lost: [shard: number, reason: string][] = []
  readonly failures: unknown[] = []

  constructor(owner: string, { leases, clock }: Processes) {
    this.store = new MemoryLeaseStore(leases)
    const failed = (error: unknown): void => void this.failures.push(error)
    this.keeper = new LeaseKeeper(this.store, { owner, names: LOCAL_LEASES, clock, failed })
  }

  run(consumer: string, leaseMs = LEASE_MS): LeaseGroup {
    const lost = ({ shard }: HeldShard, reason: string): void => void this.lost.push([shard, reason])
    return this.keeper.add({
      path: `${consumer}/`,
      leaseMs,
      events: { acquired: () => undefined, lost },
    })
  }
}

/** The number of shards that each group holds. */
export function sizes(...groups: readonly LeaseGroup[]): readonly number[] {
  return groups.map(({ held }) => held.length)
}
