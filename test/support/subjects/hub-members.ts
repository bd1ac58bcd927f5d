import { onTestFinished } from 'vitest'
import type { ConnectedPorts, LocalShard, LocalStore, LocalWork, Sleeper } from '@txbox/core/ports'
import { joinLocalHub } from '../../../packages/consumer/src/local/local-hub.ts'
import type {
  LocalHeldShard,
  LocalJoin,
  LocalListener,
  LocalMembership,
} from '../../../packages/consumer/src/local/local-membership.ts'
import { until } from '../worlds/until.ts'
import { MemoryLeases, MemoryLeaseStore } from './memory-lease-store.ts'

/** A database without messages, whose polls the test answers. */
export class QuietDatabase {
  readonly leases = new MemoryLeases()
  readonly leaseStores: MemoryLeaseStore[] = []
  readonly polls: (readonly LocalShard[])[] = []
  readonly registered: [consumer: string, types: readonly string[]][] = []
  generation = 0
  answer: (shards: readonly LocalShard[]) => Promise<readonly LocalWork[]> = async () => []
  schema: Error | undefined
  usedConnections = 0
  /** The hubs that listen. Without `canListen`, the database is one that cannot notify. */
  canListen = false
  readonly sleepers = new Set<Sleeper>()

  constructor() {
    this.leases.now = performance.now()
    const clock = setInterval(() => (this.leases.now = performance.now()), 1)
    onTestFinished(() => clearInterval(clock))
  }

  /** The ports of one process. */
  process(): ConnectedPorts {
    const generation = (): number => this.generation
    const store: Partial<LocalStore> = {
      get generation() {
        return generation()
      },
      work: (shards) => {
        this.polls.push(shards)
        return this.answer(shards)
      },
    }
    const ports: Partial<ConnectedPorts> = {
      checkSchema: async () => {
        if (this.schema !== undefined) throw this.schema
      },
      subscriptions: () => ({
        register: async (consumer, types) => {
          this.registered.push([consumer, types])
          return types
        },
        list: async () => [],
      }),
      local: () => store as LocalStore,
      leases: () => {
        const leases = new MemoryLeaseStore(this.leases)
        this.leaseStores.push(leases)
        return leases
      },
      useConnections: (_, connections) => {
        this.usedConnections += connections
        return () => (this.usedConnections -= connections)
      },
      ...(this.canListen && {
        listenToLocal: (sleeper: Sleeper) => {
          this.sleepers.add(sleeper)
          return { close: () => void this.sleepers.delete(sleeper) }
        },
      }),
    }
    return ports as ConnectedPorts
  }
}

/** A consumer that records what its hub tells it. */
export class Member implements LocalListener {
  readonly shards = new Set<LocalHeldShard>()
  readonly losses: string[] = []
  readonly finds: [held: LocalHeldShard, what: { waiting: boolean; due: boolean }][] = []
  readonly failures: unknown[] = []
  readonly deafness: unknown[] = []
  #membership: LocalMembership | undefined

  static async joined(
    ports: ConnectedPorts,
    consumer: string,
    options: Partial<LocalJoin> = {},
  ): Promise<Member> {
    const member = new Member()
    const membership = await joinLocalHub(ports, {
      ...{ consumer, types: ['made'], listener: member, leaseMs: 3000, listens: true },
      pollMs: { listening: { min: 5, max: 20 }, polling: { min: 5, max: 20 } },
      ...options,
    })
    member.#membership = membership
    onTestFinished(() => membership.leave(AbortSignal.abort()))
    return member
  }

  get membership(): LocalMembership {
    if (this.#membership === undefined) throw new Error('The member has not joined.')
    return this.#membership
  }

  acquired(held: LocalHeldShard): void {
    this.shards.add(held)
  }

  lost(held: LocalHeldShard, reason: string): void {
    this.shards.delete(held)
    this.losses.push(reason)
  }

  found(held: LocalHeldShard, what: { readonly waiting: boolean; readonly due: boolean }): void {
    this.finds.push([held, what])
  }

  failed(error: unknown): void {
    this.failures.push(error)
  }

  notListening(error: unknown): void {
    this.deafness.push(error)
  }

  async holds(count: number): Promise<void> {
    await until(
      async () => this.shards.size === count,
      () => `${count} shards; there are ${this.shards.size}`,
      5000,
    )
  }

  leave(): Promise<void> {
    return this.membership.leave(AbortSignal.timeout(5000))
  }
}
