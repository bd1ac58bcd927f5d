import { isTxboxError, type Publisher } from '@txbox/core'
import { SHARDS, type HeldShard } from '@txbox/core/internal'
import type { PollerSettings, ShardLanes } from '../polling/poller.ts'
import { GrowingPause } from './growing-pause.ts'
import type { ShardTurns } from './shard-turns.ts'

/**
 * The number of shards that are worked on concurrently: enough that the database and this process never wait for each
 * other. A publisher that keeps the order of a key has one message of each key in flight, so it gets all shards;
 * otherwise it would wait for the broker.
 */
const LANES = { none: 4, 'per-key': SHARDS } as const

/** The longest pause of a shard while the database cannot be reached. */
const MAX_DATABASE_PAUSE_MS = 5000

interface LaneSettings extends Pick<PollerSettings, 'store' | 'leases' | 'empty' | 'pace' | 'onError'> {
  readonly ordering: Publisher['ordering']
}

/**
 * A queue of the shards of this relay that have messages to publish. As many shards as there are lanes have a turn at
 * the same time.
 */
export class TurnLanes implements ShardLanes {
  readonly #settings: LaneSettings
  readonly #shards = new Map<HeldShard, ShardTurns>()
  readonly #ready = new Map<number, HeldShard>()
  /** Shards that were added during their turn. */
  readonly #again = new Set<HeldShard>()
  /** Shards that wait for a turn after a pause, with the timer at the end of the pause. */
  readonly #paused = new Map<HeldShard, { readonly endsAt: number; readonly timer: NodeJS.Timeout }>()
  /** The pauses of shards whose turns fail. They carry over from one term to the next. */
  readonly #failures = Array.from({ length: SHARDS }, () => new GrowingPause())
  /** Lanes that wait for a shard. */
  readonly #free: ((held: HeldShard | undefined) => void)[] = []
  /** The generation of the server that the store saw last: see `RelayStore.generation`. */
  #generation: number
  #isClosed = false

  constructor(settings: LaneSettings) {
    this.#settings = settings
    this.#generation = settings.store.generation
  }

  /** Must be called when a lease was acquired. */
  open(held: HeldShard, turns: ShardTurns): void {
    this.#shards.set(held, turns)
    this.add(held)
  }

  /** Must be called when a lease is lost. Resolves when the calls of the shard have ended; their results are ignored. */
  async abandon(held: HeldShard): Promise<void> {
    const turns = this.#shards.get(held)
    this.#shards.delete(held)
    await turns?.abandon()
  }

  add(held: HeldShard, afterMs = 0): void {
    if (afterMs > 0) return this.#addAfter(held, afterMs)
    if (held.isBusy) this.#again.add(held)
    if (this.#isClosed || !held.mayTurn) return
    const lane = this.#free.shift()
    if (lane === undefined) this.#ready.set(held.shard, held)
    else {
      held.beginTurn()
      lane(held)
    }
  }

  /**
   * Gives a turn to each shard that is to be given back: a turn that was asked for when the lease was in doubt was not
   * taken.
   */
  addLeaving(): void {
    for (const held of this.#shards.keys()) if (held.isLeaving) this.add(held)
  }

  /** Gives a turn to each shard that has not looked for a while for keys whose head was deleted by hand, with work or without. */
  addUnhealed(): void {
    const now = performance.now()
    for (const [held, turns] of this.#shards) if (turns.mustHeal(now)) this.add(held)
  }

  resumePaused(): void {
    for (const held of this.#paused.keys()) this.add(held)
  }

  sawWork(held: HeldShard, due: boolean, askedAt: number): void {
    this.#shards.get(held)?.sawDue(due, askedAt)
    this.add(held)
  }

  noticeServer(): void {
    const { store, empty } = this.#settings
    if (store.generation === this.#generation) return
    this.#generation = store.generation
    empty.forget()
    for (const [held, turns] of this.#shards) {
      turns.forget()
      this.add(held)
    }
  }

  /** Resolves after {@link close}, when the last turn has ended. */
  async run(): Promise<void> {
    const lanes = LANES[this.#settings.ordering ?? 'none']
    await Promise.all(Array.from({ length: lanes }, () => this.#lane()))
  }

  /** From now on no turn begins. */
  close(): void {
    this.#isClosed = true
    this.#ready.clear()
    for (const { timer } of this.#paused.values()) clearTimeout(timer)
    for (const lane of this.#free.splice(0)) lane(undefined)
  }

  /** When the relay stops, after {@link run}: waits for the calls in flight and settles their results. */
  async finish(): Promise<void> {
    const { leases, onError } = this.#settings
    await Promise.all(
      [...this.#shards].map(async ([held, turns]) => {
        await turns.finish(onError).catch(onError)
        await leases.rest(held)
      }),
    )
  }

  async #lane(): Promise<void> {
    const { leases, pace } = this.#settings
    for (;;) {
      const held = await this.#next()
      if (held === undefined) return
      const startedAt = performance.now()
      const hasMore = await this.#turn(held)
      held.endTurn()
      const isAgain = this.#again.delete(held)
      await leases.rest(held)
      if (hasMore || isAgain) this.add(held)
      // The poller has passed over the shard, and its last read may have been too early.
      else pace.wakeIfNewsSince(startedAt)
    }
  }

  /** The next shard, with its turn begun; `undefined` when there will be no more. */
  async #next(): Promise<HeldShard | undefined> {
    for (const [shard, held] of this.#ready) {
      this.#ready.delete(shard)
      if (!held.mayTurn) continue
      held.beginTurn()
      return held
    }
    if (this.#isClosed) return undefined
    return new Promise((resolve) => this.#free.push(resolve))
  }

  /** @returns whether the shard may have more to do at once. */
  async #turn(held: HeldShard): Promise<boolean> {
    const turns = this.#shards.get(held)
    if (turns === undefined || this.#isClosed) return false
    const failures = this.#failures[held.shard]!
    const waitMs = failures.remainingMs(performance.now())
    if (waitMs > 0) {
      this.add(held, waitMs)
      return false
    }
    try {
      const hasMore = await turns.turn()
      failures.succeeded()
      return hasMore
    } catch (error) {
      this.#turnFailed(held, failures, error)
      return false
    } finally {
      this.noticeServer()
    }
  }

  #turnFailed(held: HeldShard, failures: GrowingPause, error: unknown): void {
    if (isTxboxError(error) && error.code === 'TXBOX_LEASE_LOST') return this.#settings.leases.taken(held)
    this.#settings.onError(error)
    const isAway = isTxboxError(error) && error.code === 'TXBOX_DATABASE_UNAVAILABLE'
    this.add(held, failures.failed(performance.now(), isAway ? MAX_DATABASE_PAUSE_MS : undefined))
  }

  #addAfter(held: HeldShard, afterMs: number): void {
    if (this.#isClosed || !this.#shards.has(held)) return
    const endsAt = performance.now() + afterMs
    const paused = this.#paused.get(held)
    if (paused !== undefined && paused.endsAt <= endsAt) return
    clearTimeout(paused?.timer)
    const timer = setTimeout(() => {
      this.#paused.delete(held)
      this.add(held)
    }, afterMs)
    this.#paused.set(held, { endsAt, timer })
  }
}
