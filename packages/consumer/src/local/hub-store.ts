import type { Session } from '@txbox/core'
import type {
  Lease,
  LocalMessage,
  LocalRead,
  LocalRow,
  LocalSettlement,
  LocalShard,
  LocalStore,
  LocalWork,
  ReadLimits,
} from '@txbox/core/ports'

/**
 * The store that all local consumers of a hub share. At most so many of its statements run at the same time, so that the loops
 * take few connections from the pool. The statements in the transactions of handlers use the connections of their transactions,
 * and do not wait.
 */
export class HubStore implements LocalStore {
  readonly #store: LocalStore
  #connections: number
  #running = 0
  /** The statements that wait, in their order. */
  readonly #waiting: (() => void)[] = []
  /** The last of the questions about keys, which are asked one after the other. */
  #asked: Promise<unknown> = Promise.resolve()

  constructor(store: LocalStore, connections: number) {
    this.#store = store
    this.#connections = connections
  }

  /** Changes the maximum number of statements at the same time. */
  set connections(connections: number) {
    this.#connections = connections
    while (this.#running < connections) {
      const next = this.#waiting.shift()
      if (next === undefined) return
      this.#running++
      next()
    }
  }

  get generation(): number {
    return this.#store.generation
  }

  work(shards: readonly LocalShard[]): Promise<readonly LocalWork[]> {
    return this.#run(() => this.#store.work(shards))
  }

  read(
    at: LocalShard,
    limits: ReadLimits,
    how: { readonly after: bigint | undefined; readonly without: readonly string[] },
  ): Promise<LocalRead> {
    return this.#run(() => this.#store.read(at, limits, how))
  }

  readDue(lease: Lease, at: LocalShard, limits: ReadLimits): Promise<readonly LocalMessage[]> {
    return this.#run(() => this.#store.readDue(lease, at, limits))
  }

  readSuspect(at: LocalShard, limits: ReadLimits): Promise<LocalMessage | undefined> {
    return this.#run(() => this.#store.readSuspect(at, limits))
  }

  lock(
    session: Session,
    lease: Lease,
    at: LocalShard,
    rows: readonly LocalRow[],
  ): Promise<readonly LocalRow[]> {
    return this.#store.lock(session, lease, at, rows)
  }

  remove(session: Session, at: LocalShard, rows: readonly LocalRow[]): Promise<void> {
    return this.#store.remove(session, at, rows)
  }

  settle(lease: Lease, at: LocalShard, settlement: LocalSettlement): Promise<readonly LocalRow[]> {
    return this.#run(() => this.#store.settle(lease, at, settlement))
  }

  get acceptTogether(): LocalStore['acceptTogether'] {
    const store = this.#store
    if (store.acceptTogether === undefined) return undefined
    return (acceptances) => this.#run(() => store.acceptTogether!(acceptances))
  }

  release(lease: Lease, at: LocalShard, keys: readonly string[]): Promise<void> {
    return this.#run(() => this.#store.release(lease, at, keys))
  }

  healKeys(lease: Lease, at: LocalShard): Promise<number> {
    return this.#run(() => this.#store.healKeys(lease, at))
  }

  suspect(lease: Lease, at: LocalShard, rows: readonly LocalRow[]): Promise<readonly LocalRow[]> {
    return this.#run(() => this.#store.suspect(lease, at, rows))
  }

  isKeyUnlocked(at: LocalShard, key: string): Promise<boolean> {
    // After a takeover there is one question for each key: polls and settlements must not wait behind all of them.
    const answer = this.#asked.then(() => this.#run(() => this.#store.isKeyUnlocked(at, key)))
    this.#asked = answer.catch(() => undefined)
    return answer
  }

  handled(consumer: string, types: readonly string[]): Promise<void> {
    return this.#run(() => this.#store.handled(consumer, types))
  }

  note(lease: Lease, inFlight: string | undefined): Promise<boolean> {
    return this.#run(() => this.#store.note(lease, inFlight))
  }

  survived(lease: Lease): Promise<void> {
    return this.#run(() => this.#store.survived(lease))
  }

  countDue(consumer: string, limit: number): Promise<number> {
    return this.#run(() => this.#store.countDue(consumer, limit))
  }

  async #run<R>(statement: () => Promise<R>): Promise<R> {
    if (this.#running < this.#connections) this.#running++
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await statement()
    } finally {
      const next = this.#running > this.#connections ? undefined : this.#waiting.shift()
      if (next === undefined) this.#running--
      else next()
    }
  }
}
