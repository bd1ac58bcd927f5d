import { onTestFinished } from 'vitest'
import { LeasedGauges } from '../../../packages/core/src/gauges/leased-gauges.ts'
import { until } from '../worlds/until.ts'
import { GaugesUnderTest } from './gauges-under-test.ts'
import { MemoryLeaseStore, MemoryLeases } from './memory-lease-store.ts'

export const EVERY_MS = 10
export const LEASE_MS = 1000
export const BACKLOG = 'txbox.outbox.backlog.messages'
export const NEVER = new Promise<never>(() => undefined)
const none = { count: 0, atLeast: false }
export const LAG = {
  backlog: { count: 7, atLeast: false },
  oldestMs: 1000,
  parked: none,
  oldestDue: { ageMs: 2000 },
}
export const STATUS = { refused: none, behind: none, scheduled: none, dead: none, claims: 3 }
const INSPECTION = {
  lag: async (): Promise<object> => LAG,
  oldestOutsideOutbox: async () => [{ ageMs: 3000, in: 'queue', topic: 'q' }],
  localConsumers: async () => [],
  queues: async () => [],
  status: async (): Promise<object> => STATUS,
}

/** The answer to a process without the privilege. */
export const refused = async (): Promise<never> => {
  throw new Error('permission denied')
}

/** The table of leases, on whose clock the processes are. */
export const leases = new MemoryLeases()
export const CLOCK = { monotonicMs: () => leases.now, wallMs: () => leases.now }

/** A process on the database, whose telemetry reads its gauges when it is asked. */
export class ProcessUnderTest {
  readonly telemetry = new GaugesUnderTest()
  readonly store = new MemoryLeaseStore(leases)
  readonly reads: string[] = []
  readonly gauges: LeasedGauges
  readonly end: () => void

  constructor(inspection: object = {}, settings: object = {}) {
    const all = Object.entries({ ...INSPECTION, ...inspection }).map(([name, read]) => [
      name,
      (...args: readonly unknown[]) => {
        this.reads.push(name)
        return (read as (...given: readonly unknown[]) => unknown)(...args)
      },
    ])
    const ports = { leases: () => this.store, inspection: () => Object.fromEntries(all) as object }
    const given = { everyMs: EVERY_MS, leaseMs: LEASE_MS, clock: CLOCK, ...settings }
    this.gauges = new LeasedGauges(ports as never, given)
    this.end = this.gauges.observe(this.telemetry)
    onTestFinished(async () => {
      this.end()
      await this.gauges.idle
    })
  }

  backlog(): Promise<number | undefined> {
    return this.telemetry.value(BACKLOG)
  }

  async has(backlog: number | undefined): Promise<void> {
    await until(
      async () => (await this.backlog()) === backlog,
      () => `a backlog of ${backlog}`,
    )
  }

  /** Waits for a number of attempts to get or keep the lease. */
  async tries(more: number): Promise<void> {
    const before = this.store.calls.length
    await until(
      async () => this.store.calls.length >= before + more,
      () => `${more} calls`,
    )
  }
}
