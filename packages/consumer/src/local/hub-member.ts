import type { Lease, LocalStore, LocalWork } from '@txbox/core/ports'
import { unlessAborted, type HeldShard, type LeaseGroup, type LeaseKeeper } from '@txbox/core/internal'
import type { LocalHeldShard, LocalJoin, LocalListener, LocalMembership } from './local-membership.ts'

/** The part of the hub that its members use. */
interface Hub {
  readonly keeper: LeaseKeeper
  readonly store: LocalStore
  look(members: readonly HubMember[]): Promise<void>
  /** Must be called when a shard was acquired: a poll finds the rows that are there already. */
  acquired(): void
  busy(handled: number): void
  /** Must be called when the member has released its shards, or must give them up. */
  remove(member: HubMember, signal: AbortSignal): Promise<void>
}

/** One local consumer in the hub. */
export class HubMember implements LocalMembership {
  readonly consumer: string
  readonly pollMs: LocalJoin['pollMs']
  readonly listens: boolean
  readonly group: LeaseGroup
  readonly #hub: Hub
  readonly #listener: LocalListener
  readonly #held = new Map<HeldShard, MemberShard>()
  /** The releases in flight. */
  readonly #resting = new Set<Promise<void>>()
  readonly #released = Promise.withResolvers<void>()
  #leaving: Promise<void> | undefined
  #hasLeft = false

  constructor(hub: Hub, { consumer, leaseMs, listener, listens, pollMs }: LocalJoin) {
    this.#hub = hub
    this.consumer = consumer
    this.pollMs = pollMs
    this.listens = listens
    this.#listener = listener
    this.group = hub.keeper.add({
      path: `${consumer}/`,
      leaseMs,
      events: {
        acquired: (held) => this.#acquired(held),
        lost: (held, reason) => this.#lost(held, reason),
      },
    })
  }

  get store(): LocalStore {
    return this.#hub.store
  }

  get held(): readonly LocalHeldShard[] {
    return [...this.#held.values()]
  }

  /** The shards that are polled. */
  get polled(): readonly LocalHeldShard[] {
    return this.held.filter(({ isTrusted, isLeaving }) => isTrusted && !isLeaving)
  }

  look(): Promise<void> {
    return this.#hub.look([this])
  }

  taken(held: LocalHeldShard): void {
    for (const [key, value] of this.#held) if (value === held) this.group.taken(key)
  }

  busy(handled: number): void {
    this.#hub.busy(handled)
  }

  leave(signal: AbortSignal): Promise<void> {
    this.#leaving ??= this.#leave(signal)
    return this.#leaving
  }

  found(held: LocalHeldShard, { waiting, due }: Pick<LocalWork, 'waiting' | 'due'>): void {
    // The poll has taken its time: another process may have the shard by now.
    if (this.held.includes(held) && held.isTrusted) this.#listener.found(held, { waiting, due })
  }

  failed(error: unknown): void {
    if (!this.#hasLeft) this.#listener.failed(error)
  }

  notListening(error: unknown): void {
    if (!this.#hasLeft) this.#listener.notListening(error)
  }

  async #leave(signal: AbortSignal): Promise<void> {
    const released = this.group.leave()
    if (this.#held.size === 0) this.#released.resolve()
    const all = Promise.all([released, this.#released.promise.then(() => Promise.all(this.#resting))])
    await unlessAborted(all, signal).catch(() => undefined)
    await this.#hub.remove(this, signal)
    this.#hasLeft = true
  }

  #acquired(held: HeldShard): void {
    const rest = (): void => {
      const resting: Promise<void> = this.group.rest(held).finally(() => this.#resting.delete(resting))
      this.#resting.add(resting)
    }
    const shard = new MemberShard(this.consumer, held, rest)
    this.#held.set(held, shard)
    if (this.#hasLeft) return
    this.#listener.acquired(shard)
    this.#hub.acquired()
  }

  #lost(held: HeldShard, reason: 'expired' | 'taken' | 'stopped'): void {
    const shard = this.#held.get(held)
    this.#held.delete(held)
    if (shard !== undefined && !this.#hasLeft) this.#listener.lost(shard, reason)
    if (this.#leaving !== undefined && this.#held.size === 0) this.#released.resolve()
  }
}

class MemberShard implements LocalHeldShard {
  readonly consumer: string
  readonly #held: HeldShard
  readonly #rest: () => void

  constructor(consumer: string, held: HeldShard, rest: () => void) {
    this.consumer = consumer
    this.#held = held
    this.#rest = rest
  }

  get shard(): number {
    return this.#held.shard
  }

  get lease(): Lease {
    return this.#held.lease
  }

  get crashes(): number {
    return this.#held.crashes
  }

  get isTrusted(): boolean {
    return this.#held.isTrusted
  }

  get isLeaving(): boolean {
    return this.#held.isLeaving
  }

  beginWork(): void {
    this.#held.beginBatch()
  }

  endWork(): void {
    this.#held.endCalls()
    this.#held.closeBatch()
    this.#rest()
  }
}
