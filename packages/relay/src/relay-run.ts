import { setTimeout as pause } from 'node:timers/promises'
import {
  SHARDS,
  exponentialBackoff,
  isTxboxError,
  type ConnectedPorts,
  type EventListeners,
  type LeaseStore,
  type Publisher,
  type RetryPolicy,
  type WakeUps,
} from '@txbox/core'
import { EmptyShards } from './empty-shards.ts'
import { LeaseKeeper, type HeldShard } from './lease-keeper.ts'
import { systemClock } from './lease-trust.ts'
import { PollPace } from './poll-pace.ts'
import { PublisherOutage } from './publisher-outage.ts'
import { PublishingGate } from './publishing-gate.ts'
import { ReadyShards } from './ready-shards.ts'
import type { RelayEvents } from './relay.ts'
import { ShardAgenda } from './shard-agenda.ts'
import type { TurnResult, TurnTools } from './turn.ts'

/**
 * How many shards are worked on at a time: enough that the database and this process never wait for each other. A
 * publisher that keeps the order of a key has one message of each key under way: it gets all of them, or it would wait
 * for the broker.
 */
const LANES = { none: 4, 'per-key': SHARDS } as const

/** A statement that takes longer than the lease is of no use; a busy database is still given this long. */
const LEAST_TIMEOUT_MS = 5000

/** After a failure of the database. */
const DATABASE_PAUSES = exponentialBackoff({ minMs: 100, maxMs: 5000, attempts: 1000 })

export interface RelaySettings {
  readonly ports: ConnectedPorts
  readonly leases: LeaseStore
  readonly wakeup: 'poll' | 'notify'
  readonly publisher: Publisher
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
  readonly #tools: TurnTools
  readonly #ready = new ReadyShards()
  readonly #agendas = new Map<HeldShard, ShardAgenda>()
  readonly #empty = new EmptyShards()
  /** Ends the pauses of the loops. */
  readonly #stopping = new AbortController()
  /** Tells the publisher to stop now. */
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
    const { events, ports, publisher, owner, leaseMs } = settings
    this.#settings = settings
    this.#pace = new PollPace(settings.pollMs)
    this.broken = new Promise((_, reject) => (this.#break = reject))
    this.broken.catch(() => undefined)
    this.#tools = {
      store: ports.relay({ statementTimeoutMs: Math.max(leaseMs, LEAST_TIMEOUT_MS) }),
      publisher,
      events,
      retry: settings.retry,
      outage: new PublisherOutage(),
      gate: new PublishingGate(),
      limits: { messages: settings.batchSize, bytes: settings.batchBytes },
      signal: this.#force.signal,
    }
    this.#keeper = new LeaseKeeper(
      settings.leases,
      { owner, leaseMs, clock: systemClock },
      {
        acquired: (held) => {
          const empty = this.#empty
          const count = (result: TurnResult): void => this.#count(result)
          const agenda = { lookAfterMs: settings.pollMs.max, empty, count }
          this.#agendas.set(held, new ShardAgenda(held, this.#tools, agenda))
          events.emit('lease-acquired', { shard: held.shard, term: held.lease.term })
          this.#ready.add(held)
        },
        lost: (held, reason) => {
          this.#agendas.delete(held)
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
      this.#unneeded.abort()
      await this.#keeping
    })().catch((error: unknown) => this.#failed(error))
    await within(timeoutMs - graceMs / 2, finished)
    clearTimeout(forced)
    this.#force.abort()
    this.#unneeded.abort()
    await within(graceMs / 2, this.#keeper.close())
  }

  /** Resolves when each shard has been seen empty since now, by us or, where it is not ours, by asking. */
  async drained(): Promise<void> {
    const since = performance.now()
    const left = (): readonly number[] => this.#empty.unseenSince(since)
    for (const held of this.#keeper.idle()) this.#ready.add(held)
    while (left().length > 0 && !this.#stopping.signal.aborted) {
      const others = left().filter((shard) => !this.#keeper.holds(shard))
      if (others.length > 0) await this.#lookAt(others).catch((error: unknown) => this.#failed(error))
      if (left().length > 0) await Promise.race([this.#empty.next(), this.#pause(this.#settings.pollMs.min)])
    }
  }

  async #keepLeases(): Promise<void> {
    while (!this.#unneeded.signal.aborted) {
      await this.#keeper.round()
      await this.#pause(this.#keeper.roundMs, this.#unneeded.signal)
    }
  }

  /** Looks for new messages where nothing is going on; often while there are some, ever less often when there are none. */
  async #poll(): Promise<void> {
    let moved = 0
    for (let failures = 0; !this.#stopping.signal.aborted;) {
      await this.#pause(this.#tools.outage.remainingMs(performance.now()))
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
          this.#agendas.get(held)?.told(due, startedAt)
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
    for (let failures = 0; ;) {
      const held = await this.#ready.next()
      if (held === undefined) return
      const startedAt = performance.now()
      let more = false
      try {
        more = await this.#turn(held)
        failures = 0
      } catch (error) {
        if (isTxboxError(error) && error.code === 'TXBOX_LEASE_LOST') {
          this.#keeper.taken(held)
        } else {
          this.#failed(error)
          await this.#pause(DATABASE_PAUSES.delayMs(++failures, Math.random))
        }
      }
      await this.#keeper.done(held)
      if (more) this.#ready.add(held)
      // The poller has passed over the shard, and its last read may have been too early.
      else if (this.#newsAt >= startedAt) this.#pace.wake()
    }
  }

  /** → whether the shard may have more to do at once. */
  async #turn(held: HeldShard): Promise<boolean> {
    const outageMs = this.#tools.outage.remainingMs(performance.now())
    if (outageMs > 0) await this.#pause(outageMs)
    const agenda = this.#agendas.get(held)
    return agenda === undefined || this.#stopping.signal.aborted ? false : agenda.turn()
  }

  #count(result: TurnResult): void {
    this.counts.published += result.published
    this.counts.parked += result.parked
    this.counts.deadLettered += result.deadLettered
    if (result.published > 0) this.#pace.hurry()
  }

  get #moved(): number {
    return this.counts.published + this.counts.deadLettered
  }

  /**
   * → those of the shards that have something to do, and whether parked messages of them are due; the others have been
   * seen empty, except where we are at work ourselves: what a turn has taken counts once it is settled.
   */
  async #lookAt(shards: readonly number[]): Promise<ReadonlyMap<number, boolean>> {
    const startedAt = performance.now()
    const found = new Map((await this.#tools.store.work(shards)).map(({ shard, due }) => [shard, due]))
    const empty = shards.filter((shard) => !found.has(shard) && !this.#keeper.isAtWork(shard))
    this.#empty.seen(empty, startedAt)
    return found
  }

  /** Everything that is thrown comes by here: told to the user, and fatal when no pause can mend it. */
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
