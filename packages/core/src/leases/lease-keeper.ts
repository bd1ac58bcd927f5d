import { DatabaseUnavailableError } from '../errors/errors.ts'
import type { LeaseStore } from '../ports/lease-store.ts'
import { within } from '../time/within.ts'
import { LeaseGroup, type LeaseGroupSettings, type TrustedLease } from './lease-group.ts'
import type { LeaseNames } from './lease-names.ts'
import { LeaseReturns } from './lease-returns.ts'
import { trustFrom, type Clock } from './lease-trust.ts'

/** Rounds follow each other within a second, so that a free shard is soon found. */
const MAX_ROUND_MS = 1000
/** The longest lease that an option allows. */
const MAX_LEASE_MS = 600_000

interface Settings {
  readonly owner: string
  readonly names: LeaseNames
  readonly clock: Clock
  readonly failed: (error: unknown) => void
}

/**
 * Holds this process's share of the shards of each of its groups: acquires free shards, renews their leases at intervals on a
 * separate connection, and releases some shards when other processes start. One keeper serves all groups, so that the
 * number of its statements does not grow with them.
 *
 * In each group the process holds one more lease, which shows the other processes that it is alive.
 */
export class LeaseKeeper {
  readonly #store: LeaseStore
  readonly #settings: Settings
  readonly #returns: LeaseReturns
  readonly #groups = new Set<LeaseGroup>()
  #renewedAt = -Infinity
  #roundBeganAt = -Infinity
  /** The part of a round after the renewal, while it is in progress. Never rejects. */
  #sharing: { readonly done: Promise<void>; readonly sinceMs: number } | undefined
  /** How many connections were given up. */
  #cuts = 0

  constructor(store: LeaseStore, settings: Settings) {
    this.#store = store
    this.#settings = settings
    this.#returns = new LeaseReturns(store, settings.failed)
  }

  /** The pause until the next round. Rounds begin at intervals of a third of the shortest lease, and at most of a second. */
  get pauseMs(): number {
    return Math.max(0, this.#roundMs - (this.#settings.clock.monotonicMs() - this.#roundBeganAt))
  }

  /** The next round acquires the first shards of the group. */
  add(settings: LeaseGroupSettings): LeaseGroup {
    const group = new LeaseGroup(settings, { ...this.#settings, returns: this.#returns })
    this.#groups.add(group)
    return group
  }

  /**
   * Releases all shards of a group, and forgets the group. Calls that are still in flight are cut off, which counts as a crash;
   * the database refuses their settlement.
   */
  async remove(group: LeaseGroup): Promise<void> {
    this.#groups.delete(group)
    const { leases, cutOff } = group.close()
    await this.#returns.giveBack(leases, cutOff)
  }

  /**
   * One round: renews leases, counts the processes, and takes or gives away shards. The next round repeats what failed.
   *
   * A renewal that is slow leaves the rest its time. A rest that is slow goes on beside the next renewal, which waits for one of its
   * statements at most: if it were cut off, the shards that it has just acquired would be held by nobody for the length of a lease.
   * After that length it is cut off.
   */
  async round(): Promise<void> {
    this.#roundBeganAt = this.#settings.clock.monotonicMs()
    const limitMs = this.#shortestLeaseMs / 3
    try {
      await within(this.#renewIfDue(), limitMs, renewedTooSlowly)
      const sharing = (this.#sharing ??= { done: this.#shareAlone(), sinceMs: this.#roundBeganAt })
      await within(sharing.done, limitMs, () => this.#sharesTooSlowly(sharing.sinceMs))
    } catch (error) {
      await this.#failed(error)
    }
    for (const group of this.#groups) group.loseExpired()
  }

  /** Acquires no more shards and releases the idle ones; the groups release the others as they become idle. */
  async stop(): Promise<void> {
    await Promise.all([...this.#groups].map((group) => group.stop()))
  }

  /**
   * Releases all shards. Calls that are still in flight are cut off, which counts as a crash; the database refuses
   * their settlement.
   */
  async close(): Promise<void> {
    const closed = [...this.#groups].map((group) => group.close())
    await this.#returns.giveBack(
      closed.flatMap(({ leases }) => leases),
      closed.flatMap(({ cutOff }) => cutOff),
    )
    await this.#cut()
    await this.#sharing?.done
    await this.#cut()
  }

  get #shortestLeaseMs(): number {
    return Math.min(MAX_LEASE_MS, ...[...this.#groups].map(({ leaseMs }) => leaseMs))
  }

  get #roundMs(): number {
    return Math.min(this.#shortestLeaseMs / 3, MAX_ROUND_MS)
  }

  async #renewIfDue(): Promise<void> {
    if (this.#settings.clock.monotonicMs() - this.#renewedAt >= this.#roundMs * 0.9) await this.#renew()
  }

  async #failed(error: unknown): Promise<void> {
    this.#settings.failed(error)
    await this.#cut()
  }

  async #cut(): Promise<void> {
    this.#cuts += 1
    await this.#store.close()
  }

  /** @throws {Error} which is no outage: the leases were renewed just before, so that the work under them goes on. */
  #sharesTooSlowly(sinceMs: number): void {
    const ms = this.#shortestLeaseMs
    if (this.#settings.clock.monotonicMs() - sinceMs < ms) return
    throw new Error(
      `Sharing the shards with other processes took longer than ${Math.round(ms)} ms: the connection is replaced, and the next round goes on.`,
    )
  }

  async #shareAlone(): Promise<void> {
    const cuts = this.#cuts
    try {
      await this.#share()
    } catch (error) {
      // When a renewal fails, its error is reported, and the connection is closed. The error of this statement only follows from that.
      if (cuts === this.#cuts) await this.#failed(error)
    } finally {
      this.#sharing = undefined
    }
  }

  /** Returns shards, counts the processes, and takes or gives away shards. */
  async #share(): Promise<void> {
    const { names } = this.#settings
    await this.#returns.giveBack([])
    const groups = [...this.#groups].filter((group) => !group.isStopping)
    if (groups.length === 0) return
    // Removes the rows of processes that were killed.
    await this.#store.sweep(names.members, Math.max(...groups.map(({ leaseMs }) => leaseMs)))
    await this.#introduce(groups.filter((group) => group.member === undefined))
    const holders = await this.#store.holders(names.both ?? names.members)
    const complete: LeaseGroup[] = []
    for (const group of groups) {
      if (group.isStopping) continue
      const missing = group.missing(holders)
      if (missing < 0) await group.giveAway(-missing)
      else if (missing > 0) await this.#take(group, group.free(holders), missing)
      else complete.push(group)
    }
    if (complete.length === 0) return
    const owners = names.both === undefined ? await this.#store.holders(names.shards) : holders
    for (const group of complete) {
      const abandoned = group.abandoned(owners)
      await this.#take(group, abandoned, abandoned.length, true)
    }
  }

  async #renew(): Promise<void> {
    this.#renewedAt = this.#settings.clock.monotonicMs()
    for (const [leaseMs, groups] of byLease(this.#groups)) {
      const asked = groups.map((group) => group.leases)
      const trust = trustFrom(this.#settings.clock, leaseMs)
      const renewed = new Set(await this.#store.renew(asked.flat(), leaseMs))
      for (const [n, group] of groups.entries()) group.renewed(asked[n]!, renewed, trust)
    }
  }

  /** Shows the other processes that this one takes part in the groups. */
  async #introduce(groups: readonly LeaseGroup[]): Promise<void> {
    for (const [leaseMs, some] of byLease(groups)) {
      const byName = new Map(some.map((group) => [group.memberName, group]))
      for (const { lease } of await this.#acquire([...byName.keys()], byName.size, leaseMs)) {
        await byName.get(lease.name)?.introduced(lease)
      }
    }
  }

  async #take(group: LeaseGroup, names: readonly string[], limit: number, isExtra = false): Promise<void> {
    if (group.isStopping || names.length === 0) return
    await group.take(await this.#acquire(names, limit, group.leaseMs), isExtra)
  }

  async #acquire(names: readonly string[], limit: number, leaseMs: number): Promise<readonly TrustedLease[]> {
    const { owner, clock } = this.#settings
    const trust = trustFrom(clock, leaseMs)
    const leases = await this.#store.acquire(names, { owner, ttlMs: leaseMs, limit })
    return leases.map((lease) => ({ lease, trust }))
  }
}

/** The groups whose leases have the same length: one statement gives all its leases one length. */
function byLease(groups: Iterable<LeaseGroup>): ReadonlyMap<number, readonly LeaseGroup[]> {
  return Map.groupBy(groups, ({ leaseMs }) => leaseMs)
}

function renewedTooSlowly(ms: number): never {
  throw new DatabaseUnavailableError(
    `Renewing the leases took longer than ${Math.round(ms)} ms: the connection is replaced.`,
  )
}
