import type { Lease, LeaseHolder } from '../ports/lease-store.ts'
import { SHARDS } from '../sending/shards.ts'
import { HeldShard } from './held-shard.ts'
import type { LeaseNames } from './lease-names.ts'
import type { LeaseReturns } from './lease-returns.ts'
import type { Clock, Trust } from './lease-trust.ts'
import { ShardShare } from './shard-share.ts'

export interface LeaseGroupEvents {
  readonly acquired: (held: HeldShard) => void
  readonly lost: (held: HeldShard, reason: 'expired' | 'taken' | 'stopped') => void
}

export interface LeaseGroupSettings {
  /** What stands between the prefixes of the names and the rest: nothing, or the consumer and a slash. */
  readonly path: string
  readonly leaseMs: number
  readonly events: LeaseGroupEvents
}

/** A lease that was acquired, or a renewed one. */
export interface TrustedLease {
  readonly lease: Lease
  readonly trust: Trust
}

/**
 * Sixteen shards that several processes share evenly, as this process sees them: those of the outbox, or of one local
 * consumer. The keeper sends the statements.
 */
export class LeaseGroup {
  readonly leaseMs: number
  /** The name of the lease that shows the others that this process is alive. */
  readonly memberName: string
  readonly #memberPrefix: string
  readonly #shardOf: ReadonlyMap<string, number>
  readonly #returns: LeaseReturns
  readonly #events: LeaseGroupEvents
  readonly #clock: Clock
  readonly #share: ShardShare
  readonly #held = new Map<number, HeldShard>()
  /** Shards that were lost while a call was in flight: they are not taken again before the call has ended. */
  readonly #unfinished = new Map<number, HeldShard>()
  /**
   * The last terms in which this process held shards, by name: a lease that expired under this process is no sign of a
   * crash.
   */
  readonly #terms = new Map<string, { readonly term: bigint; readonly ownLosses: number }>()
  #member: Lease | undefined
  #isStopping = false
  #isMember = true

  constructor(
    { path, leaseMs, events }: LeaseGroupSettings,
    {
      owner,
      names,
      clock,
      returns,
    }: {
      readonly owner: string
      readonly names: LeaseNames
      readonly clock: Clock
      readonly returns: LeaseReturns
    },
  ) {
    this.leaseMs = leaseMs
    this.#memberPrefix = names.members + path
    this.memberName = this.#memberPrefix + owner
    this.#shardOf = new Map(
      Array.from({ length: SHARDS }, (_, shard) => [
        `${names.shards}${path}${String(shard).padStart(2, '0')}`,
        shard,
      ]),
    )
    this.#returns = returns
    this.#events = events
    this.#clock = clock
    this.#share = new ShardShare(owner, leaseMs)
  }

  get held(): readonly HeldShard[] {
    return [...this.#held.values()]
  }

  /** Whether the group acquires no more shards. */
  get isStopping(): boolean {
    return this.#isStopping
  }

  /** The lease that shows the others that this process is alive. */
  get member(): Lease | undefined {
    return this.#member
  }

  idle(): readonly HeldShard[] {
    return this.held.filter((held) => held.isIdle)
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

  /**
   * Must be called when a turn or a call has ended. Releases a shard that is leaving if none of its messages is in
   * flight.
   */
  async rest(held: HeldShard): Promise<void> {
    if (held.isAtWork) return
    if (this.#unfinished.get(held.shard) === held) this.#unfinished.delete(held.shard)
    if (held.isLeaving && this.#held.get(held.shard) === held) await this.#giveBack([held])
  }

  /** Must be called when the database reports that this process no longer holds the lease. */
  taken(held: HeldShard): void {
    this.#lose(held, held.isTrusted ? 'taken' : 'expired')
  }

  /** Acquires no more shards and releases the idle ones; {@link rest} releases the others as they become idle. */
  stop(): Promise<void> {
    return this.#stop()
  }

  /** Like {@link stop}, but the other processes no longer count this one, so that they take the shards at once. */
  leave(): Promise<void> {
    this.#isMember = false
    return this.#stop(this.#resign())
  }

  /** Must be called by the keeper alone: gives up all leases, and returns them, and those under which a call was cut off. */
  close(): { readonly leases: readonly Lease[]; readonly cutOff: readonly Lease[] } {
    this.#isStopping = true
    const member = this.#resign()
    const { leases, cutOff } = this.#giveUp(this.held)
    return { leases: [...leases, ...(member === undefined ? [] : [member])], cutOff }
  }

  /** The leases to renew. */
  get leases(): readonly Lease[] {
    return [...this.held.map(({ lease }) => lease), ...(this.#member === undefined ? [] : [this.#member])]
  }

  /** @param asked the {@link leases} at the time of the renewal. */
  renewed(asked: readonly Lease[], renewed: ReadonlySet<Lease>, trust: Trust): void {
    if (this.#member !== undefined && asked.includes(this.#member) && !renewed.has(this.#member)) {
      this.#member = undefined
    }
    for (const held of this.held) {
      if (renewed.has(held.lease)) held.renew(trust)
      else if (asked.includes(held.lease)) this.taken(held)
    }
  }

  /** Loses the shards whose leases this process no longer trusts. */
  loseExpired(): void {
    for (const held of this.#held.values()) {
      if (!held.isTrusted) this.#lose(held, 'expired')
    }
  }

  async introduced(member: Lease): Promise<void> {
    if (this.#isMember) this.#member = member
    else await this.#giveBack([], member)
  }

  /** The number of shards that are missing to the even share, or, below zero, that are too many. */
  missing(holders: readonly LeaseHolder[]): number {
    const members = holders.filter(({ name, owner }) => name === this.#memberPrefix + owner)
    const size = this.#share.size(members.map(({ owner }) => owner))
    const counted = this.#counted().length
    if (counted !== size) this.#share.forgetUnowned()
    return size - counted
  }

  async giveAway(count: number): Promise<void> {
    // Idle shards first: they can be released at once. Of these, first those that the others are sure to be able to take.
    const rank = (held: HeldShard): number =>
      2 * Number(held.isAtWork) + Number(this.#share.isExtra(held.shard))
    const leaving = this.#counted()
      .toSorted((a, b) => rank(a) - rank(b))
      .slice(0, count)
    for (const held of leaving) held.leave()
    await this.#giveBack(leaving.filter((held) => !held.isAtWork))
  }

  /** The names of the shards that this process may try to acquire: those that have an owner are left out if that is known. */
  free(holders: readonly LeaseHolder[]): readonly string[] {
    const owned = new Set(holders.map(({ name }) => name))
    return [...this.#shardOf].flatMap(([name, shard]) =>
      owned.has(name) || this.#held.has(shard) || this.#unfinished.has(shard) ? [] : [name],
    )
  }

  /** The names of the shards that have had no owner for the length of a lease. */
  abandoned(holders: readonly LeaseHolder[]): readonly string[] {
    const owned = new Set(holders.map(({ name }) => this.#shardOf.get(name)))
    const unowned = [...this.#shardOf.values()].filter((shard) => !owned.has(shard) && !this.#held.has(shard))
    const abandoned = new Set(this.#share.abandoned(unowned, this.#clock.monotonicMs()))
    return this.free([]).filter((name) => abandoned.has(this.#shardOf.get(name)!))
  }

  /** @param isExtra whether the shards are beyond the even share. */
  async take(acquired: readonly TrustedLease[], isExtra: boolean): Promise<void> {
    for (const { lease, trust } of acquired) {
      const held = this.#hold(lease, trust)
      if (isExtra) this.#share.addExtra(held.shard, this.#clock.monotonicMs())
    }
    if (this.#isStopping) await this.#stop()
  }

  async #stop(member?: Lease): Promise<void> {
    this.#isStopping = true
    for (const held of this.#held.values()) held.leave()
    await this.#giveBack(
      this.held.filter((held) => !held.isAtWork),
      member,
    )
  }

  #hold(lease: Lease, trust: Trust): HeldShard {
    // A lease that expired under this process, and that no other process has had meanwhile, is no crash.
    const last = this.#terms.get(lease.name)
    const ownLosses = last?.term === lease.term - 1n ? last.ownLosses + 1 : 0
    this.#terms.set(lease.name, { term: lease.term, ownLosses })
    const crashes = Math.max(0, lease.crashes - ownLosses)
    const held = new HeldShard(
      this.#shardOf.get(lease.name)!,
      { lease, trust },
      { crashes, isLeaving: this.#isStopping },
    )
    this.#held.set(held.shard, held)
    this.#events.acquired(held)
    return held
  }

  #counted(): readonly HeldShard[] {
    const now = this.#clock.monotonicMs()
    return this.held.filter((held) => !held.isLeaving && this.#share.counts(held.shard, now))
  }

  #resign(): Lease | undefined {
    const member = this.#member
    this.#member = undefined
    return member
  }

  async #giveBack(leaving: readonly HeldShard[], member?: Lease): Promise<void> {
    const { leases, cutOff } = this.#giveUp(leaving)
    await this.#returns.giveBack([...leases, ...(member === undefined ? [] : [member])], cutOff)
  }

  #giveUp(leaving: readonly HeldShard[]): { readonly leases: Lease[]; readonly cutOff: Lease[] } {
    const cutOff = leaving.filter((held) => held.isCutOff).map(({ lease }) => lease)
    for (const held of leaving) this.#lose(held, 'stopped')
    return { leases: leaving.map(({ lease }) => lease), cutOff }
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
