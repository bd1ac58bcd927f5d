import { DatabaseUnavailableError, type Lease, type LeaseStore } from '@txbox/core'
import { SHARDS } from '@txbox/core/internal'
import { HeldShard } from './held-shard.ts'
import { trustFrom, type Clock, type Trust } from './lease-trust.ts'

const MEMBER_PREFIX = 'relay/'
const SHARD_PREFIX = 'outbox/'

const SHARD_OF = new Map(
  Array.from({ length: SHARDS }, (_, shard) => [`${SHARD_PREFIX}${String(shard).padStart(2, '0')}`, shard]),
)

export interface LeaseKeeperEvents {
  readonly acquired: (held: HeldShard) => void
  readonly lost: (held: HeldShard, reason: 'expired' | 'taken' | 'stopped') => void
  readonly failed: (error: unknown) => void
}

interface Settings {
  readonly owner: string
  readonly leaseMs: number
  readonly clock: Clock
}

/**
 * Holds this relay's share of the shards: takes what is free, renews it on a timer and a connection of its own, and
 * gives some away as other relays come.
 *
 * Every relay makes itself known by a lease `relay/<owner>`; who is known shares the shards evenly.
 */
export class LeaseKeeper {
  readonly #store: LeaseStore
  readonly #settings: Settings
  readonly #events: LeaseKeeperEvents
  readonly #held = new Map<number, HeldShard>()
  /** Shards that were lost while a call was in flight: not taken again before the call has ended. */
  readonly #unfinished = new Map<number, HeldShard>()
  /** Shards that this relay took beyond its share, because no relay had them for the length of a lease. */
  readonly #adopted = new Set<number>()
  /** Since when a shard has been without an owner, on the monotonic clock, as far as this relay has seen. */
  #unownedSince: ReadonlyMap<number, number> = new Map()
  #members = ''
  /** The last terms in which this relay held shards, by name: a lease that ran out under it is no sign of a crash. */
  readonly #terms = new Map<string, { readonly term: bigint; readonly ownLosses: number }>()
  /** Given up, but not yet in the database, which could not be reached: nobody can take them before that. */
  #owed: readonly Lease[] = []
  /** Those given-up shards that had something in flight which was cut off. */
  readonly #cutOff = new Set<Lease>()
  #member: Lease | undefined
  #renewedAt = -Infinity
  #stopping = false

  constructor(store: LeaseStore, settings: Settings, events: LeaseKeeperEvents) {
    this.#store = store
    this.#settings = settings
    this.#events = events
  }

  /** How long to pause between two rounds: a third of the lease, and a shard that is free is found within a second. */
  get roundMs(): number {
    return Math.min(this.#settings.leaseMs / 3, 1000)
  }

  /** The shards that may be worked on now and are idle. */
  idle(): readonly HeldShard[] {
    return [...this.#held.values()].filter((held) => !held.busy && !held.leaving && held.isTrusted)
  }

  holds(shard: number): boolean {
    return this.#held.has(shard)
  }

  /** Is a turn of the shard in progress, or a call in flight? Includes calls of a shard that has been lost meanwhile. */
  isAtWork(shard: number): boolean {
    return this.#held.get(shard)?.isAtWork === true || this.#unfinished.has(shard)
  }

  /** One round: renew, see who is there, take or give away. What fails is told, and tried again in the next round. */
  async round(): Promise<void> {
    try {
      await this.#within(this.#settings.leaseMs / 3, this.#round())
    } catch (error) {
      this.#events.failed(error)
      await this.#store.close()
    }
    for (const held of this.#held.values()) {
      if (!held.isTrusted) this.#lose(held, 'expired')
    }
  }

  /**
   * Must be called when a turn or a call has ended. A shard that is to be given back is given back when nothing of it
   * is in flight.
   */
  async rest(held: HeldShard): Promise<void> {
    if (held.isAtWork) return
    if (this.#unfinished.get(held.shard) === held) this.#unfinished.delete(held.shard)
    if (held.leaving && this.#held.get(held.shard) === held) await this.#giveBack([held])
  }

  /** The database has said that the lease is somebody else's. */
  taken(held: HeldShard): void {
    this.#lose(held, held.isTrusted ? 'taken' : 'expired')
  }

  /** Takes no more shards and gives back the idle ones; the other shards follow as they come to rest, by {@link rest}. */
  async stop(): Promise<void> {
    this.#stopping = true
    for (const held of this.#held.values()) held.leaving = true
    await this.#giveBack([...this.#held.values()].filter((held) => !held.isAtWork))
  }

  /**
   * Gives back all shards. Calls that are still in flight are cut off, which counts as a crash; their settlement is
   * fenced off.
   */
  async close(): Promise<void> {
    this.#stopping = true
    const member = this.#member
    this.#member = undefined
    await this.#giveBack([...this.#held.values()], member)
    await this.#store.close()
  }

  async #round(): Promise<void> {
    const { owner, clock } = this.#settings
    if (clock.monotonicMs() - this.#renewedAt >= this.roundMs * 0.9) await this.#renew()
    await this.#giveBack([])
    if (this.#stopping) return
    // A relay that was killed leaves its row.
    await this.#store.sweep(MEMBER_PREFIX, this.#settings.leaseMs)
    if (this.#member === undefined) {
      const [member] = await this.#acquire([MEMBER_PREFIX + owner], 1)
      this.#member = member?.lease
    }
    const members = (await this.#store.holders(MEMBER_PREFIX)).map((member) => member.owner)
    if (this.#members !== (this.#members = members.join('\n'))) this.#adopted.clear()
    const quota = quotaOf(owner, members)
    const staying = [...this.#held.values()].filter(
      ({ leaving, shard }) => !leaving && !this.#adopted.has(shard),
    )
    if (staying.length > quota) {
      // Idle ones first: they can go at once.
      const leaving = staying
        .toSorted((a, b) => Number(a.isAtWork) - Number(b.isAtWork))
        .slice(0, staying.length - quota)
      for (const held of leaving) held.leaving = true
      await this.#giveBack(leaving.filter((held) => !held.isAtWork))
    } else if (staying.length < quota) {
      this.#unownedSince = new Map()
      await this.#take(quota - staying.length)
    } else await this.#adopt()
  }

  /**
   * Takes shards beyond the share of this relay that no relay has had for the length of a lease: the relay whose share
   * they would belong to cannot take them while one of its calls, made under a lease that it has lost, still hangs. They
   * count again as soon as relays come or go.
   */
  async #adopt(): Promise<void> {
    const owned = new Set((await this.#store.holders(SHARD_PREFIX)).map(({ name }) => SHARD_OF.get(name)))
    const now = this.#settings.clock.monotonicMs()
    const unowned = [...SHARD_OF.values()].filter((shard) => !owned.has(shard) && !this.#held.has(shard))
    this.#unownedSince = new Map(unowned.map((shard) => [shard, this.#unownedSince.get(shard) ?? now]))
    const orphans = unowned.filter((shard) => now - this.#unownedSince.get(shard)! > this.#settings.leaseMs)
    for (const shard of await this.#take(orphans.length, orphans)) this.#adopted.add(shard)
  }

  /** @returns the shards that were taken, at most `limit`. */
  async #take(limit: number, wanted: readonly number[] = [...SHARD_OF.values()]): Promise<readonly number[]> {
    const names = [...SHARD_OF].flatMap(([name, shard]) =>
      !wanted.includes(shard) || this.#held.has(shard) || this.#unfinished.has(shard) ? [] : [name],
    )
    if (names.length === 0) return []
    const taken: number[] = []
    for (const { lease, trust } of await this.#acquire(names, limit)) {
      // A lease that ran out under this relay, and that nobody else has had meanwhile, is no crash.
      const last = this.#terms.get(lease.name)
      const ownLosses = last?.term === lease.term - 1n ? last.ownLosses + 1 : 0
      const crashes = Math.max(0, lease.crashes - ownLosses)
      this.#terms.set(lease.name, { term: lease.term, ownLosses })
      const leaving = this.#stopping
      const held = new HeldShard(SHARD_OF.get(lease.name)!, { lease, trust }, { crashes, leaving })
      this.#held.set(held.shard, held)
      taken.push(held.shard)
      this.#events.acquired(held)
    }
    if (this.#stopping) await this.stop()
    return taken
  }

  async #acquire(
    names: readonly string[],
    limit: number,
  ): Promise<readonly { lease: Lease; trust: Trust }[]> {
    const { owner, leaseMs, clock } = this.#settings
    const trust = trustFrom(clock, leaseMs)
    const leases = await this.#store.acquire(names, { owner, ttlMs: leaseMs, limit })
    return leases.map((lease) => ({ lease, trust }))
  }

  async #renew(): Promise<void> {
    const { leaseMs, clock } = this.#settings
    const asked = [...this.#held.values()]
    const member = this.#member
    this.#renewedAt = clock.monotonicMs()
    const trust = trustFrom(clock, leaseMs)
    const leases = [...asked.map((held) => held.lease), ...(member === undefined ? [] : [member])]
    const renewed = new Set(await this.#store.renew(leases, leaseMs))
    if (member !== undefined && !renewed.has(member)) this.#member = undefined
    for (const held of asked) {
      if (renewed.has(held.lease)) held.renewed(trust)
      else if (this.#held.get(held.shard) === held) this.taken(held)
    }
  }

  /** By one statement: where a deadline is near there may be no time for two. */
  async #giveBack(leaving: readonly HeldShard[], member?: Lease): Promise<void> {
    const leases = [
      ...this.#owed,
      ...leaving.map((held) => held.lease),
      ...(member === undefined ? [] : [member]),
    ]
    for (const held of leaving) {
      if (held.isCutOff) this.#cutOff.add(held.lease)
      this.#lose(held, 'stopped')
    }
    if (leases.length === 0) return
    this.#owed = []
    // The connection may have broken with the others: another is opened for the second try. If that fails too the next
    // round tries again, or they run out by themselves; the worker must not stop for it.
    const release = (): Promise<void> => this.#store.release(leases, this.#cutOff)
    await release()
      .catch(release)
      .then(() => leases.forEach((lease) => this.#cutOff.delete(lease)))
      .catch((error: unknown) => {
        this.#owed = [...this.#owed, ...leases]
        this.#events.failed(error)
      })
  }

  #lose(held: HeldShard, reason: 'expired' | 'taken' | 'stopped'): void {
    if (this.#held.get(held.shard) !== held) return
    this.#held.delete(held.shard)
    this.#adopted.delete(held.shard)
    if (held.isAtWork) this.#unfinished.set(held.shard, held)
    held.lost()
    this.#events.lost(held, reason)
  }

  async #within<T>(ms: number, work: Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      const error = new DatabaseUnavailableError(
        `Renewing leases took longer than ${Math.round(ms)} ms: the connection is given up for another.`,
      )
      timer = setTimeout(() => reject(error), ms)
    })
    work.catch(() => undefined)
    try {
      return await Promise.race([work, late])
    } finally {
      clearTimeout(timer)
    }
  }
}

/** An even share: with a remainder, the first ones in the order of their names get one more. */
function quotaOf(owner: string, members: readonly string[]): number {
  const all = [...new Set([...members, owner])].sort()
  return Math.floor(SHARDS / all.length) + (all.indexOf(owner) < SHARDS % all.length ? 1 : 0)
}
