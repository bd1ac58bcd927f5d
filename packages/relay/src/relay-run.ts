import { setTimeout as pause } from 'node:timers/promises'
import {
  exponentialBackoff,
  isTxboxError,
  type ConnectedPorts,
  type LeaseStore,
  type Publisher,
  type RetryPolicy,
  type WakeUps,
} from '@txbox/core'
import { SHARDS, type EventListeners } from '@txbox/core/internal'
import { EmptyShards } from './polling/empty-shards.ts'
import type { HeldShard } from './leases/held-shard.ts'
import { LeaseKeeper } from './leases/lease-keeper.ts'
import { systemClock } from './leases/lease-trust.ts'
import { GrowingPause } from './turns/growing-pause.ts'
import { PollPace } from './polling/poll-pace.ts'
import { PublisherOutage } from './turns/publisher-outage.ts'
import { ReadyShards } from './turns/ready-shards.ts'
import type { RelayEvents } from './relay.ts'
import type { Counts, WorkTools } from './turns/shard-flights.ts'
import { ShardWorker } from './turns/shard-worker.ts'
import { SuspectLane } from './turns/suspect-lane.ts'

/**
 * How many shards are worked on at a time: enough that the database and this process never wait for each other. A
 * publisher that keeps the order of a key has one message of each key in flight: it gets all shards, or it would wait
 * for the broker.
 */
const LANES = { none: 4, 'per-key': SHARDS } as const

/** A statement that takes longer than the lease is of no use; a busy database is still given this long. */
const LEAST_TIMEOUT_MS = 5000

/** How often the relay looks for keys whose head was deleted by hand, in milliseconds. */
const HEAL_AFTER_MS = 60_000

/** The longest pause of a shard while the database cannot be reached. */
const LONGEST_AWAY_PAUSE_MS = 5000

/** After a failure of the database. */
const DATABASE_PAUSES = exponentialBackoff({ minMs: 100, maxMs: 5000, attempts: 1000 })

export interface RelaySettings {
  readonly ports: ConnectedPorts
  readonly leases: LeaseStore
  readonly wakeup: 'poll' | 'notify'
  readonly publisher: Publisher
  readonly publishTimeoutMs: number
  readonly batchSize: number
  readonly batchBytes: number
  readonly pollMs: { readonly min: number; readonly max: number }
  readonly leaseMs: number
  readonly owner: string
  readonly retry: RetryPolicy
  readonly events: EventListeners<RelayEvents>
}

/** One run of a relay, from start to stop: a keeper of leases, a poller, and lanes that publish. */
export class RelayRun {
  readonly #settings: RelaySettings
  readonly #keeper: LeaseKeeper
  readonly #tools: WorkTools
  readonly #ready = new ReadyShards()
  readonly #workers = new Map<HeldShard, ShardWorker>()
  /** Shards that wait for a turn after a pause, with the end of the pause on the monotonic clock. */
  readonly #waiting = new Map<HeldShard, number>()
  /** The pauses of shards whose turns fail. They carry over from one term to the next. */
  readonly #failures = Array.from({ length: SHARDS }, () => new GrowingPause())
  readonly #empty = new EmptyShards()
  /** The generation of the server that the store saw last: see `RelayStore.generation`. */
  #generation = 0
  /** The callers that wait for the end of a drain. */
  #draining = 0
  /** Ends the pauses of the loops. */
  readonly #stopping = new AbortController()
  /** Aborts the publisher's signal. */
  readonly #force = new AbortController()
  /** Ends the keeping of leases, which goes on while a batch is in flight. */
  readonly #unneeded = new AbortController()
  #keeping: Promise<void> = Promise.resolve()
  #working: Promise<unknown> = Promise.resolve()
  readonly #pace: PollPace
  /** When the last news came, on the monotonic clock. */
  #newsAt = -Infinity
  #wakeUps: WakeUps | undefined
  readonly counts = { published: 0, parked: 0, deadLettered: 0 }
  /** Rejects when the relay cannot go on. */
  readonly broken: Promise<never>
  #break!: (error: unknown) => void

  constructor(settings: RelaySettings) {
    const { events, ports, publisher, publishTimeoutMs, owner, leaseMs, leases } = settings
    this.#settings = settings
    this.#pace = new PollPace(settings.pollMs)
    this.broken = new Promise((_, reject) => (this.#break = reject))
    this.broken.catch(() => undefined)
    this.#tools = {
      store: ports.relay({ statementTimeoutMs: Math.max(leaseMs, LEAST_TIMEOUT_MS) }),
      publisher,
      publishTimeoutMs,
      events,
      retry: settings.retry,
      outage: new PublisherOutage(),
      lane: new SuspectLane(),
      limits: { messages: settings.batchSize, bytes: settings.batchBytes },
      signal: this.#force.signal,
    }
    this.#generation = this.#tools.store.generation
    this.#keeper = new LeaseKeeper(
      leases,
      { owner, leaseMs, clock: systemClock },
      {
        acquired: (held) => {
          this.#workers.set(held, this.#workerOf(held))
          events.emit('lease-acquired', { shard: held.shard, term: held.lease.term })
          this.#ready.add(held)
        },
        lost: (held, reason) => {
          this.#workers.get(held)?.abandon()
          this.#workers.delete(held)
          events.emit('lease-lost', { shard: held.shard, term: held.lease.term, reason })
        },
        failed: (error) => this.#failed(error),
      },
    )
  }

  /** @throws {SchemaError | DatabaseUnavailableError} when it cannot begin. */
  async start(): Promise<void> {
    await this.#settings.ports.checkSchema()
    if (this.#settings.wakeup === 'notify') {
      this.#wakeUps = this.#settings.ports.listen?.({
        woken: () => {
          this.#newsAt = performance.now()
          this.#pace.wake()
        },
        failed: (error) => this.#failed(error),
      })
    }
    this.#keeping = this.#keepLeases()
    this.#working = Promise.all([
      this.#poll(),
      ...Array.from({ length: LANES[this.#settings.publisher.ordering ?? 'none'] }, () => this.#lane()),
    ])
  }

  /**
   * Resolves by the deadline, whatever hangs: shortly before it the publisher is told to stop now, and shortly after
   * that the leases are given back even if it does not.
   */
  async stop(timeoutMs: number): Promise<void> {
    const graceMs = Math.min(1000, timeoutMs / 3)
    const forced = setTimeout(() => this.#force.abort(), timeoutMs - graceMs)
    this.#stopping.abort()
    this.#pace.stop()
    this.#wakeUps?.close()
    this.#ready.close()
    const finished = (async () => {
      await this.#keeper.stop()
      await this.#working
      await Promise.all([...this.#workers].map(([held, worker]) => this.#finish(held, worker)))
      this.#unneeded.abort()
      await this.#keeping
    })().catch((error: unknown) => this.#failed(error))
    await within(timeoutMs - graceMs / 2, finished)
    clearTimeout(forced)
    this.#force.abort()
    this.#unneeded.abort()
    await within(graceMs / 2, this.#keeper.close())
  }

  /**
   * Resolves when each shard has been seen with nothing due since now: by this relay, or, if another relay holds the
   * shard, by a query.
   */
  async drained(): Promise<void> {
    const since = performance.now()
    this.#draining++
    try {
      for (const held of this.#keeper.idle()) this.#ready.add(held)
      for (
        let left = this.#empty.unseenSince(since);
        left.length > 0;
        left = this.#empty.unseenSince(since)
      ) {
        if (this.#stopping.signal.aborted) return
        const others = left.filter((shard) => !this.#keeper.holds(shard))
        if (others.length > 0) await this.#lookAt(others).catch((error: unknown) => this.#failed(error))
        if (this.#empty.unseenSince(since).length === 0) return
        await this.#empty.next(this.#settings.pollMs.min)
      }
    } finally {
      this.#draining--
    }
  }

  async #keepLeases(): Promise<void> {
    while (!this.#unneeded.signal.aborted) {
      await this.#keeper.round()
      // A turn that was asked for while the trust in the lease had run out was not taken.
      for (const held of this.#workers.keys()) if (held.leaving) this.#ready.add(held)
      await this.#pause(this.#keeper.roundMs, this.#unneeded.signal)
    }
  }

  /** Looks for new messages where nothing is going on; often while there are some, ever less often when there are none. */
  async #poll(): Promise<void> {
    let moved = 0
    for (let failures = 0; !this.#stopping.signal.aborted;) {
      await this.#pause(this.#tools.outage.waitMs(performance.now()))
      await this.#pace.wait()
      try {
        if (this.#moved === moved) this.#pace.slacken()
        moved = this.#moved
        const idle = this.#keeper.idle()
        if (idle.length === 0) continue
        const startedAt = performance.now()
        const found = await this.#lookAt(idle.map((held) => held.shard))
        for (const held of idle) {
          const due = found.get(held.shard)
          if (due === undefined) continue
          this.#workers.get(held)?.sawDue(due, startedAt)
          this.#ready.add(held)
        }
        failures = 0
      } catch (error) {
        this.#failed(error)
        this.#pace.hurry()
        await this.#pause(DATABASE_PAUSES.delayMs(++failures, Math.random))
      }
    }
  }

  async #lane(): Promise<void> {
    for (;;) {
      const held = await this.#ready.next()
      if (held === undefined) return
      const startedAt = performance.now()
      const more = await this.#turn(held)
      const again = this.#ready.done(held)
      await this.#keeper.rest(held)
      if (more || again) this.#ready.add(held)
      // The poller has passed over the shard, and its last read may have been too early.
      else if (this.#newsAt >= startedAt) this.#pace.wake()
    }
  }

  /** @returns whether the shard may have more to do at once. */
  async #turn(held: HeldShard): Promise<boolean> {
    const worker = this.#workers.get(held)
    if (worker === undefined || this.#stopping.signal.aborted) return false
    const failures = this.#failures[held.shard]!
    const waitMs = failures.remainingMs(performance.now())
    if (waitMs > 0) {
      this.#later(held, waitMs)
      return false
    }
    try {
      const more = await worker.turn()
      failures.succeeded()
      return more
    } catch (error) {
      if (isTxboxError(error) && error.code === 'TXBOX_LEASE_LOST') this.#keeper.taken(held)
      else {
        this.#failed(error)
        const isAway = isTxboxError(error) && error.code === 'TXBOX_DATABASE_UNAVAILABLE'
        this.#later(held, failures.failed(performance.now(), isAway ? LONGEST_AWAY_PAUSE_MS : undefined))
      }
      return false
    } finally {
      this.#noticeServer()
    }
  }

  #workerOf(held: HeldShard): ShardWorker {
    const settings = {
      empty: this.#empty,
      gathers: () => this.#draining === 0 && this.#pace.isGathering,
      lookAfterMs: this.#settings.pollMs.max,
      healAfterMs: HEAL_AFTER_MS,
    }
    return new ShardWorker(held, this.#tools, settings, {
      wants: (afterMs) => this.#later(held, afterMs ?? 0),
      brokerIsBack: () => {
        for (const waiting of this.#waiting.keys()) this.#ready.add(waiting)
      },
      count: (counts) => this.#count(counts),
    })
  }

  /** Gives the shard a turn after a pause. If the shard already has a pause, the one that ends earlier counts. */
  #later(held: HeldShard, afterMs: number): void {
    if (!this.#workers.has(held)) return void this.#keeper.rest(held)
    if (afterMs <= 0) return this.#ready.add(held)
    const at = performance.now() + afterMs
    if ((this.#waiting.get(held) ?? Infinity) <= at) return
    this.#waiting.set(held, at)
    void this.#pause(afterMs).then(() => {
      if (this.#waiting.get(held) !== at) return
      this.#waiting.delete(held)
      this.#ready.add(held)
    })
  }

  /** When the relay stops: waits for the calls in flight and settles their results. */
  async #finish(held: HeldShard, worker: ShardWorker): Promise<void> {
    await worker.finish((error) => this.#failed(error)).catch((error: unknown) => this.#failed(error))
    await this.#keeper.rest(held)
  }

  /** Forgets what was seen of the server, because the server is another one or has gone back in time. */
  #noticeServer(): void {
    const { generation } = this.#tools.store
    if (generation === this.#generation) return
    this.#generation = generation
    this.#empty.forget()
    for (const [held, worker] of this.#workers) {
      worker.forget()
      this.#ready.add(held)
    }
  }

  #count(result: Counts): void {
    this.counts.published += result.published
    this.counts.parked += result.parked
    this.counts.deadLettered += result.deadLettered
    if (result.published > 0) this.#pace.moved(result.published)
  }

  get #moved(): number {
    return this.counts.published + this.counts.deadLettered
  }

  /**
   * Asks which of the shards have something to do. The other shards have been seen empty, except where a call of this
   * relay is in flight: a published message counts once it is settled.
   *
   * @returns the shards with something to do, and whether parked messages of them are due.
   */
  async #lookAt(shards: readonly number[]): Promise<ReadonlyMap<number, boolean>> {
    const startedAt = performance.now()
    const found = new Map((await this.#tools.store.work(shards)).map(({ shard, due }) => [shard, due]))
    this.#noticeServer()
    const empty = shards.filter((shard) => !found.has(shard) && !this.#keeper.isAtWork(shard))
    this.#empty.seen(empty, startedAt)
    return found
  }

  /** Emits an error. An error that no pause can cure, such as a schema that does not fit, ends the relay. */
  #failed(error: unknown): void {
    this.#settings.events.emit('error', { error })
    if (isTxboxError(error) && error.code === 'TXBOX_SCHEMA') this.#break(error)
  }

  /** Ends early when the relay is stopped, which the loops see for themselves. */
  async #pause(ms: number, signal: AbortSignal = this.#stopping.signal): Promise<void> {
    await pause(ms, undefined, { signal }).catch(() => undefined)
  }
}

/** Waits for `work`, but not longer than this. */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  await Promise.race([work, new Promise((resolve) => (timer = setTimeout(resolve, ms)))])
  clearTimeout(timer)
}
