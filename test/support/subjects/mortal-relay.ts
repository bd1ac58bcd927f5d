import {
  portsKey,
  type ConnectedDatabase,
  type OutboxMessage,
  type Publisher,
  type PublishResult,
  type TransactionHandle,
} from '@txbox/core'
import type {
  BacklogMessage,
  BacklogRow,
  ConnectedPorts,
  Lease,
  LeaseStore,
  ParkedSettlement,
  ReadLimits,
  RelayStore,
  OutboxSettlement,
} from '@txbox/core/ports'

/** The steps of a relay. */
export type RelayStep = 'read' | 'readDue' | 'publish' | 'settle' | 'settleParked'
export const RELAY_STEPS: readonly RelayStep[] = ['read', 'readDue', 'publish', 'settle', 'settleParked']

/** Where a relay dies: at the n-th occurrence of a step, before the step is executed or before its answer. */
export interface Death {
  readonly step: RelayStep
  readonly nth: number
  readonly phase: 'before' | 'answered'
}

/** Observes the steps of a relay. */
export interface RelayWitness {
  /** The relay has read these messages, by a read that began at this instant. */
  reads(owner: string, messages: readonly BacklogMessage[], begunAt: number): void
  /** The database has executed this step. */
  settles(accepted: readonly string[], buried: readonly string[]): void
  /** Instants, in order. */
  now(): number
  died(owner: string): void
}

/**
 * A database and a publisher for one relay that dies in this process as if by SIGKILL: from then on the relay gets no
 * answers, and none of its requests is executed. A request that is in flight at that moment is still executed.
 */
export class MortalRelay {
  readonly owner: string
  readonly database: ConnectedDatabase<TransactionHandle>
  readonly death: Promise<void>
  #dead = false
  readonly #end: Death | undefined
  readonly #die: () => void
  readonly #witness: RelayWitness
  readonly #counts = new Map<RelayStep, number>()
  /** The ids of the messages that it has read, by table and number. */
  readonly #ids = new Map<string, string>()

  constructor(
    owner: string,
    database: ConnectedDatabase<TransactionHandle>,
    witness: RelayWitness,
    end?: Death,
  ) {
    this.owner = owner
    this.#witness = witness
    this.#end = end
    const { promise, resolve } = Promise.withResolvers<void>()
    this.death = promise
    this.#die = () => {
      if (this.#dead) return
      this.#dead = true
      resolve()
      witness.died(owner)
    }
    const ports = database[portsKey]
    const mortal: Partial<ConnectedPorts> = {
      checkSchema: () => ports.checkSchema(),
      relay: (options) => this.#store(ports.relay(options)),
      leases: () => this.#leases(ports.leases()),
    }
    this.database = { engine: database.engine, [portsKey]: mortal } as unknown as typeof this.database
  }

  publisher(inner: Publisher): Publisher {
    return {
      ...(inner.ordering !== undefined && { ordering: inner.ordering }),
      publish: (messages: readonly OutboxMessage[], options): Promise<readonly PublishResult[]> =>
        this.#step('publish', () => inner.publish(messages, options)),
    }
  }

  #store(inner: RelayStore): RelayStore {
    const read = async (
      step: 'read' | 'readDue',
      work: () => Promise<readonly BacklogMessage[]>,
    ): Promise<readonly BacklogMessage[]> => {
      const begunAt = this.#witness.now()
      const messages = await this.#step(step, work)
      for (const { seq, id } of messages) this.#ids.set(`${step} ${seq}`, id)
      this.#witness.reads(this.owner, messages, begunAt)
      return messages
    }
    const settle = async (
      step: 'settle' | 'settleParked',
      { accepted, refused }: OutboxSettlement | ParkedSettlement,
      work: () => Promise<void>,
    ): Promise<void> => {
      const from = step === 'settle' ? 'read' : 'readDue'
      const idOf = ({ seq }: BacklogRow): string => this.#ids.get(`${from} ${seq}`)!
      await this.#step(step, async () => {
        await work()
        const dead = refused.filter(({ retryInMs }) => retryInMs === undefined)
        this.#witness.settles(
          accepted.map(idOf),
          dead.map(({ row }) => idOf(row)),
        )
      })
    }
    return {
      get generation() {
        return inner.generation
      },
      readSuspect: async (shard, limits) => {
        const [message] = await read('readDue', async () => {
          const suspect = await inner.readSuspect(shard, limits)
          return suspect === undefined ? [] : [suspect]
        })
        return message
      },
      suspectParked: (lease, shard, places) => this.#alive(() => inner.suspectParked(lease, shard, places)),
      note: (lease, inFlight) => this.#alive(() => inner.note(lease, inFlight)),
      survived: (lease) => this.#alive(() => inner.survived(lease)),
      healKeys: (lease, shard) => this.#alive(() => inner.healKeys(lease, shard)),
      read: (shard: number, limits: ReadLimits) => read('read', () => inner.read(shard, limits)),
      readDue: (lease: Lease, shard: number, limits: ReadLimits) =>
        read('readDue', () => inner.readDue(lease, shard, limits)),
      settle: (lease, shard, settlement) =>
        settle('settle', settlement, () => inner.settle(lease, shard, settlement)),
      settleParked: (lease, shard, settlement) =>
        settle('settleParked', settlement, () => inner.settleParked(lease, shard, settlement)),
      work: (shards) => this.#alive(() => inner.work(shards)),
    }
  }

  #leases(inner: LeaseStore): LeaseStore {
    return {
      acquire: (names, request) => this.#alive(() => inner.acquire(names, request)),
      renew: (leases, ttlMs) => this.#alive(() => inner.renew(leases, ttlMs)),
      holders: (prefix) => this.#alive(() => inner.holders(prefix)),
      sweep: (prefix, olderThanMs) => this.#alive(() => inner.sweep(prefix, olderThanMs)),
      // A dead relay releases no lease; it must only close its connection, which belongs to this process.
      release: async (leases, cutOff) =>
        this.#dead ? Promise.reject(new Error('dead')) : inner.release(leases, cutOff),
      close: () => inner.close(),
    }
  }

  async #step<R>(step: RelayStep, work: () => Promise<R>): Promise<R> {
    const number = (this.#counts.get(step) ?? 0) + 1
    this.#counts.set(step, number)
    const dies = (phase: Death['phase']): boolean =>
      this.#end?.step === step && this.#end.nth === number && this.#end.phase === phase
    if (dies('before')) this.#die()
    return this.#alive(work, () => dies('answered'))
  }

  async #alive<R>(work: () => Promise<R>, diesOfIt = (): boolean => false): Promise<R> {
    if (this.#dead) return silence()
    try {
      return await work()
    } finally {
      if (diesOfIt()) this.#die()
      // oxlint-disable-next-line no-unsafe-finally -- a dead relay gets no result and no error
      if (this.#dead) await silence()
    }
  }
}

function silence(): Promise<never> {
  return new Promise(() => {})
}
