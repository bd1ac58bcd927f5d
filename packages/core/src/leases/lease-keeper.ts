import { DatabaseUnavailableError } from '../errors/errors.ts'
import type { Lease, LeaseStore } from '../ports/lease-store.ts'
import { SHARDS } from '../sending/shards.ts'
import { within } from '../time/within.ts'
import { HeldShard } from './held-shard.ts'
import { LeaseReturns } from './lease-returns.ts'
import { trustFrom, type Clock, type Trust } from './lease-trust.ts'
import { ShardShare } from './shard-share.ts'

const MEMBER_PREFIX = 'relay/'
const SHARD_PREFIX = 'outbox/'

const SHARD_OF = new Map(
  Array.from({ length: SHARDS }, (_, shard) => [`${SHARD_PREFIX}${String(shard).padStart(2, '0')}`, shard]),
)

interface LeaseKeeperEvents {
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
 * Holds this relay's share of the shards: acquires free shards, renews their leases at intervals on a separate
 * connection, and releases some shards when other relays start.
 *
 * Each relay holds a lease `relay/<owner>`, which shows the other relays that it is alive.
 */
export class LeaseKeeper {
  readonly #store: LeaseStore
  readonly #settings: Settings
  readonly #events: LeaseKeeperEvents
  readonly #share: ShardShare
  readonly #returns: LeaseReturns
  readonly #held = new Map<number, HeldShard>()
  /** Shards that were lost while a call was in flight: they are not taken again before the call has ended. */
  readonly #unfinished = new Map<number, HeldShard>()
  /**
   * The last terms in which this relay held shards, by name: a lease that expired under this relay is no sign of a
   * crash.
   */
  readonly #terms = new Map<string, { readonly term: bigint; readonly ownLosses: number }>()
  #member: Lease | undefined
  #renewedAt = -Infinity
  #isStopping = false

  constructor(store: LeaseStore, settings: Settings, events: LeaseKeeperEvents) {
    this.#store = store
    this.#settings = settings
    this.#events = events
    this.#share = new ShardShare(settings.owner, settings.leaseMs)
    this.#returns = new LeaseReturns(store, events.failed)
  }

  /** The pause between two rounds: a third of the lease, and at most a second, so that a free shard is soon found. */
  get roundMs(): number {
    return Math.min(this.#settings.leaseMs / 3, 1000)
  }

  idle(): readonly HeldShard[] {
    return [...this.#held.values()].filter((held) => held.isIdle)
  }

  holds(shard: number): boolean {
    return this.#held.has(shard)
  }

  /**
   * Whether a turn of the shard is in progress, or a call in flight, including calls made under a lease that was lost.
   */
  isAtWork(shard: number): boolean {
    return this.#held.get(shard)?.isAtWork === true || this.#unfinished.has(shard)
  }

  /** One round: renews leases, counts the relays, and takes or gives away shards. The next round repeats what failed. */
  async round(): Promise<void> {
    try {
      await within(this.#round(), this.#settings.leaseMs / 3, tooSlow)
    } catch (error) {
      this.#events.failed(error)
      await this.#store.close()
    }
    for (const held of this.#held.values()) {
      if (!held.isTrusted) this.#lose(held, 'expired')
    }
  }

  /**
   * Must be called when a turn or a call has ended. Releases a shard that is leaving if none of its messages is in
   * flight.
   */
  async rest(held: HeldShard): Promise<void> {
    if (held.isAtWork) return
    if (this.#unfinished.get(held.shard) === held) this.#unfinished.delete(held.shard)
    if (held.isLeaving && this.#held.get(held.shard) === held) await this.#giveBack([held])
  }

  /** Must be called when the database reports that this relay no longer holds the lease. */
  taken(held: HeldShard): void {
    this.#lose(held, held.isTrusted ? 'taken' : 'expired')
  }

  /** Acquires no more shards and releases the idle ones; {@link rest} releases the others as they become idle. */
  async stop(): Promise<void> {
    this.#isStopping = true
    for (const held of this.#held.values()) held.leave()
    await this.#giveBack([...this.#held.values()].filter((held) => !held.isAtWork))
  }

  /**
   * Releases all shards. Calls that are still in flight are cut off, which counts as a crash; the database refuses
   * their settlement.
   */
  async close(): Promise<void> {
    this.#isStopping = true
    const member = this.#member
    this.#member = undefined
    await this.#giveBack([...this.#held.values()], member)
    await this.#store.close()
  }

  async #round(): Promise<void> {
    const { owner, clock, leaseMs } = this.#settings
    if (clock.monotonicMs() - this.#renewedAt >= this.roundMs * 0.9) await this.#renew()
    await this.#giveBack([])
    if (this.#isStopping) return
    // Removes the rows of relays that were killed.
    await this.#store.sweep(MEMBER_PREFIX, leaseMs)
    if (this.#member === undefined) {
      const [member] = await this.#acquire([MEMBER_PREFIX + owner], 1)
      this.#member = member?.lease
    }
    const members = await this.#store.holders(MEMBER_PREFIX)
    const size = this.#share.size(members.map((member) => member.owner))
    const counted = [...this.#held.values()].filter(
      (held) => !held.isLeaving && this.#share.counts(held.shard),
    )
    if (counted.length !== size) this.#share.forgetUnowned()
    if (counted.length > size) await this.#giveAway(counted, counted.length - size)
    else if (counted.length < size) await this.#take([...SHARD_OF.values()], size - counted.length)
    else await this.#takeAbandoned()
  }

  async #giveAway(shards: readonly HeldShard[], count: number): Promise<void> {
    // Idle shards first: they can be released at once.
    const leaving = shards.toSorted((a, b) => Number(a.isAtWork) - Number(b.isAtWork)).slice(0, count)
    for (const held of leaving) held.leave()
    await this.#giveBack(leaving.filter((held) => !held.isAtWork))
  }

  async #takeAbandoned(): Promise<void> {
    const owned = new Set((await this.#store.holders(SHARD_PREFIX)).map(({ name }) => SHARD_OF.get(name)))
    const unowned = [...SHARD_OF.values()].filter((shard) => !owned.has(shard) && !this.#held.has(shard))
    const abandoned = this.#share.abandoned(unowned, this.#settings.clock.monotonicMs())
    for (const held of await this.#take(abandoned, abandoned.length)) this.#share.addExtra(held.shard)
  }

  async #take(shards: readonly number[], limit: number): Promise<readonly HeldShard[]> {
    const isFree = (shard: number): boolean => !this.#held.has(shard) && !this.#unfinished.has(shard)
    const names = [...SHARD_OF].flatMap(([name, shard]) =>
      shards.includes(shard) && isFree(shard) ? [name] : [],
    )
    if (names.length === 0) return []
    const acquired = await this.#acquire(names, limit)
    const taken = acquired.map(({ lease, trust }) => this.#hold(lease, trust))
    if (this.#isStopping) await this.stop()
    return taken
  }

  #hold(lease: Lease, trust: Trust): HeldShard {
    // A lease that expired under this relay, and that no other relay has had meanwhile, is no crash.
    const last = this.#terms.get(lease.name)
    const ownLosses = last?.term === lease.term - 1n ? last.ownLosses + 1 : 0
    this.#terms.set(lease.name, { term: lease.term, ownLosses })
    const crashes = Math.max(0, lease.crashes - ownLosses)
    const held = new HeldShard(
      SHARD_OF.get(lease.name)!,
      { lease, trust },
      { crashes, isLeaving: this.#isStopping },
    )
    this.#held.set(held.shard, held)
    this.#events.acquired(held)
    return held
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
      if (renewed.has(held.lease)) held.renew(trust)
      else if (this.#held.get(held.shard) === held) this.taken(held)
    }
  }

  async #giveBack(leaving: readonly HeldShard[], member?: Lease): Promise<void> {
    const leases = [...leaving.map(({ lease }) => lease), ...(member === undefined ? [] : [member])]
    const cutOff = leaving.filter((held) => held.isCutOff).map(({ lease }) => lease)
    for (const held of leaving) this.#lose(held, 'stopped')
    await this.#returns.giveBack(leases, cutOff)
  }

  #lose(held: HeldShard, reason: 'expired' | 'taken' | 'stopped'): void {
    if (this.#held.get(held.shard) !== held) return
    this.#held.delete(held.shard)
    this.#share.lose(held.shard)
    if (held.isAtWork) this.#unfinished.set(held.shard, held)
    held.lose()
    this.#events.lost(held, reason)
  }
}

function tooSlow(ms: number): never {
  throw new DatabaseUnavailableError(
    `Renewing the leases took longer than ${Math.round(ms)} ms: the connection is replaced.`,
  )
}
