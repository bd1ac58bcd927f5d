import { exponentialBackoff } from '@txbox/core'
import type { RelayStore } from '@txbox/core/ports'
import { pause, type HeldShard, type LeaseGroup, type PollPace } from '@txbox/core/internal'
import type { EmptyShards } from './empty-shards.ts'

const DATABASE_PAUSES = exponentialBackoff({ minMs: 100, maxMs: 5000, attempts: 1000 })

export interface Counts {
  readonly published: number
  readonly parked: number
  readonly deadLettered: number
}

/** Gives the shards of this relay their turns. */
export interface ShardLanes {
  /** Gives the shard a turn, at once or after a pause. Of two pauses of a shard, the one that ends earlier counts. */
  add(held: HeldShard, afterMs?: number): void
  /** Must be called when the broker answers again: all shards that pause may go on. */
  resumePaused(): void
  /** Must be called when the poller has found work of a shard. `due`: whether parked messages of the shard are due. */
  sawWork(held: HeldShard, due: boolean, askedAt: number): void
  /**
   * Must be called after each use of the store: forgets what was seen of a server that is another one, or has gone back
   * in time.
   */
  noticeServer(): void
}

export interface PollerSettings {
  readonly store: RelayStore
  readonly leases: LeaseGroup
  readonly lanes: ShardLanes
  readonly empty: EmptyShards
  readonly pace: PollPace
  readonly outage: { waitMs(now: number): number }
  /** Aborted when the relay stops. */
  readonly signal: AbortSignal
  readonly onError: (error: unknown) => void
}

/**
 * Polls idle shards for new messages: often while there are messages, and less and less often when there are none. The
 * poller therefore counts the results of the relay.
 */
export class Poller {
  readonly #settings: PollerSettings
  #counts: Counts = { published: 0, parked: 0, deadLettered: 0 }
  #drains = 0

  constructor(settings: PollerSettings) {
    this.#settings = settings
  }

  get counts(): Counts {
    return this.#counts
  }

  /**
   * Whether messages arrive so steadily that the poller waits longer, so that several messages share a poll, a read and
   * a settlement. A drain does not wait.
   */
  get gathers(): boolean {
    return this.#drains === 0 && this.#settings.pace.isGathering
  }

  drainBegan(): void {
    this.#drains++
  }

  drainEnded(): void {
    this.#drains--
  }

  settled({ published, parked, deadLettered }: Counts): void {
    this.#counts = {
      published: this.#counts.published + published,
      parked: this.#counts.parked + parked,
      deadLettered: this.#counts.deadLettered + deadLettered,
    }
    if (published > 0) this.#settings.pace.moved(published)
  }

  async run(): Promise<void> {
    const { pace, outage, signal, onError } = this.#settings
    let moved = 0
    for (let failures = 0; !signal.aborted;) {
      await pause(outage.waitMs(performance.now()), signal)
      await pace.wait()
      try {
        if (this.#moved === moved) pace.slacken()
        moved = this.#moved
        await this.#poll()
        failures = 0
      } catch (error) {
        onError(error)
        pace.hurry()
        await pause(DATABASE_PAUSES.delayMs(++failures, Math.random), signal)
      }
    }
  }

  /**
   * Queries which of the shards have messages to publish. The others have been seen empty, except those with a call of
   * this relay in flight, whose messages are not settled yet.
   *
   * @returns the shards that have messages to publish, with whether parked messages are due.
   */
  async look(shards: readonly number[]): Promise<ReadonlyMap<number, boolean>> {
    const { store, leases, lanes, empty } = this.#settings
    const startedAt = performance.now()
    const found = new Map((await store.work(shards)).map(({ shard, due }) => [shard, due]))
    lanes.noticeServer()
    empty.seen(
      shards.filter((shard) => !found.has(shard) && !leases.isAtWork(shard)),
      startedAt,
    )
    return found
  }

  /** The number of messages that were removed from the tables or became dead letters. */
  get #moved(): number {
    return this.#counts.published + this.#counts.deadLettered
  }

  async #poll(): Promise<void> {
    const { leases, lanes } = this.#settings
    const idle = leases.idle()
    if (idle.length === 0) return
    const startedAt = performance.now()
    const found = await this.look(idle.map(({ shard }) => shard))
    for (const held of idle) {
      const due = found.get(held.shard)
      if (due !== undefined) lanes.sawWork(held, due, startedAt)
    }
  }
}
