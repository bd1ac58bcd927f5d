import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { exponentialBackoff } from '@txbox/core'
import type { ConnectedPorts, LocalStore, WakeUps } from '@txbox/core/ports'
import {
  LOCAL_LEASES,
  LeaseKeeper,
  PacedSleeper,
  PollPace,
  pause,
  pollIntervalsOption,
  systemClock,
  unlessAborted,
  within,
  type PollInterval,
} from '@txbox/core/internal'
import { HubMember } from './hub-member.ts'
import { HubStore } from './hub-store.ts'
import type { LocalJoin, LocalMembership } from './local-membership.ts'

/** The connections that the loops of all local consumers of a process and pool use together: the leases have one of them. */
const CONNECTIONS = 4
/** The minimum timeout of statements for a busy database. Otherwise the timeout is the lease: a later answer would be useless. */
const MIN_TIMEOUT_MS = 5000
const DATABASE_PAUSES = exponentialBackoff({ minMs: 100, maxMs: 5000, attempts: 1000 })
/** The time to release leases when the time to leave is over. */
const GRACE_MS = 250

/** The open hubs of each pool. There is a second one only if the process runs a consumer twice: each has its own name among the owners. */
const hubs = new WeakMap<ConnectedPorts, LocalHub[]>()

/**
 * Adds a local consumer to the hub of its process and pool: checks the tables, and registers the types of the consumer, before
 * any of its shards is acquired.
 *
 * @throws {SchemaError} when the tables are missing or have another revision.
 * @throws {DatabaseUnavailableError} when the database cannot be reached.
 */
export async function joinLocalHub(ports: ConnectedPorts, join: LocalJoin): Promise<LocalMembership> {
  await ports.checkSchema()
  await ports.subscriptions().register(join.consumer, join.types)
  const open = hubs.get(ports) ?? []
  hubs.set(ports, open)
  let hub = open.find((one) => !one.has(join.consumer))
  if (hub === undefined) {
    const store = ports.local({ statementTimeoutMs: Math.max(join.leaseMs, MIN_TIMEOUT_MS) })
    const made = new LocalHub(ports, store, () => void open.splice(open.indexOf(made), 1))
    open.push((hub = made))
  }
  return hub.join(join)
}

/**
 * Lets the local consumers of this process look for messages at once. Must be called when a transaction on this database has
 * committed that published messages.
 */
export function wakeLocalConsumers(ports: ConnectedPorts): void {
  for (const hub of hubs.get(ports) ?? []) hub.wake()
}

/** Holds the shards of all local consumers of a process and pool, and finds out which of them have rows. */
class LocalHub {
  readonly keeper: LeaseKeeper
  readonly store: HubStore
  readonly #ports: ConnectedPorts
  readonly #onClose: () => void
  readonly #pace = new PollPace({ min: 20, max: 100 })
  readonly #sleeper: PacedSleeper
  #wakeUps: WakeUps | undefined
  #hasReported = false
  readonly #members = new Set<HubMember>()
  readonly #closing = new AbortController()
  /** Ends the pause between two rounds of the keeper. */
  #nextRound = new AbortController()
  #generation: number
  #wasBusy = false
  #loops: Promise<unknown> | undefined
  #unuse: (() => void) | undefined

  constructor(ports: ConnectedPorts, store: LocalStore, onClose: () => void) {
    this.#ports = ports
    this.#onClose = onClose
    this.store = new HubStore(store, CONNECTIONS - 1)
    this.#sleeper = new PacedSleeper(this.#pace, pollIntervalsOption('', undefined), (error) =>
      this.#notListening(error),
    )
    this.#generation = store.generation
    this.keeper = new LeaseKeeper(ports.leases(), {
      owner: `${hostname()
        .replace(/[^\w.-]/g, '-')
        .slice(0, 48)}:${process.pid}:${randomBytes(4).toString('hex')}`,
      names: LOCAL_LEASES,
      clock: systemClock,
      failed: (error) => this.#failed(error),
    })
  }

  has(consumer: string): boolean {
    return [...this.#members].some((member) => member.consumer === consumer)
  }

  join(join: LocalJoin): LocalMembership {
    const member = new HubMember(this, join)
    this.#members.add(member)
    this.#setPace()
    this.#setListening()
    this.#nextRound.abort()
    this.#unuse ??= this.#ports.useConnections?.('loops of local consumers', CONNECTIONS)
    this.#loops ??= Promise.all([this.#keepLeases(), this.#poll()])
    return member
  }

  wake(): void {
    this.#pace.news()
  }

  acquired(): void {
    this.#pace.wake()
  }

  busy(handled: number): void {
    this.#wasBusy = true
    this.#pace.moved(handled)
  }

  /** Finds the rows of the members' shards with one statement. */
  async look(members: readonly HubMember[]): Promise<void> {
    const asked = members.flatMap((member) => member.polled.map((held) => ({ member, held })))
    if (asked.length === 0) return
    const shards = asked.map(({ held }) => ({ consumer: held.consumer, shard: held.shard }))
    const works = await this.store.work(shards)
    const found = new Map(works.map((work) => [nameOf(work), work]))
    for (const { member, held } of asked) {
      const work = found.get(nameOf(held))
      if (work !== undefined) member.found(held, work)
    }
    this.#noticeServer()
  }

  async remove(member: HubMember, signal: AbortSignal): Promise<void> {
    const isLast = this.#members.delete(member) && this.#members.size === 0
    if (isLast) this.#onClose()
    else this.#setPace()
    this.#setListening()
    await untilShortlyAfter(signal, this.keeper.remove(member.group))
    if (isLast) await this.#close(signal)
  }

  async #close(signal: AbortSignal): Promise<void> {
    this.#closing.abort()
    this.#nextRound.abort()
    this.#pace.stop()
    await untilShortlyAfter(signal, this.#loops ?? Promise.resolve())
    await untilShortlyAfter(signal, this.keeper.close())
    this.#unuse?.()
  }

  async #keepLeases(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      this.#nextRound = new AbortController()
      await this.keeper.round()
      await pause(this.keeper.pauseMs, this.#nextRound.signal)
    }
  }

  async #poll(): Promise<void> {
    const { signal } = this.#closing
    for (let failures = 0; !signal.aborted;) {
      await this.#pace.wait()
      if (signal.aborted) return
      if (!this.#wasBusy) this.#pace.slacken()
      this.#wasBusy = false
      try {
        await this.look([...this.#members])
        failures = 0
      } catch (error) {
        this.#failed(error)
        this.#pace.hurry()
        await pause(DATABASE_PAUSES.delayMs(++failures, Math.random), signal)
      }
    }
  }

  /** Forgets what was read if the server is another one, or its data has gone back in time. */
  #noticeServer(): void {
    if (this.store.generation === this.#generation) return
    this.#generation = this.store.generation
    for (const member of this.#members) {
      for (const held of member.polled) member.found(held, { waiting: true, due: true })
    }
  }

  #setPace(): void {
    const all = [...this.#members].map(({ pollMs }) => pollMs)
    this.#sleeper.between({
      listening: shortest(all.map(({ listening }) => listening)),
      polling: shortest(all.map(({ polling }) => polling)),
    })
  }

  /** Listens as long as a member wants it. The connection is one of those of the loops. */
  #setListening(): void {
    const listens = [...this.#members].some((member) => member.listens)
    if (listens === (this.#wakeUps !== undefined)) return
    if (listens) this.#wakeUps = this.#ports.listenToLocal?.(this.#sleeper)
    else {
      this.#wakeUps?.close()
      this.#wakeUps = undefined
      this.#sleeper.stoppedListening()
    }
    this.store.connections = CONNECTIONS - (this.#wakeUps === undefined ? 1 : 2)
  }

  #notListening(error: unknown): void {
    const [first] = this.#members
    if (this.#hasReported || first === undefined) return
    this.#hasReported = true
    first.notListening(error)
  }

  #failed(error: unknown): void {
    for (const member of this.#members) member.failed(error)
  }
}

/** Waits for work that never rejects, but not much longer than until the signal is aborted. */
async function untilShortlyAfter(signal: AbortSignal, work: Promise<unknown>): Promise<void> {
  await unlessAborted(work, signal).catch(() => within(work, GRACE_MS, () => undefined))
}

function shortest(intervals: readonly PollInterval[]): PollInterval {
  const min = Math.min(...intervals.map((interval) => interval.min))
  return { min, max: Math.max(min, Math.min(...intervals.map((interval) => interval.max))) }
}

/** Names of consumers are visible ASCII: they contain no space. */
function nameOf({ consumer, shard }: { readonly consumer: string; readonly shard: number }): string {
  return `${consumer} ${shard}`
}
