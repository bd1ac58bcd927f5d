import type { Session } from '@txbox/core'
import type { LocalShard, LocalStore } from '@txbox/core/ports'
import { GatheredLocks } from './gathered-locks.ts'
import { GatheredSettlements, type Settling } from './gathered-settlements.ts'
import type { KeyLane, WindowRow } from './key-lane.ts'
import { LocalCrashWatch } from './local-crash-watch.ts'
import { MessageDelivery, type DeliveryEnd, type DeliveryOwner } from './local-delivery.ts'
import type { LocalHeldShard } from './local-membership.ts'
import { unhandledRefusal } from './local-refusals.ts'
import { ParkedTurns } from './parked-turns.ts'
import { PreparedRows } from './prepared-rows.ts'
import { ShardTurns } from './shard-turns.ts'
import { ShardWindow } from './shard-window.ts'
import type { SuspectLane } from './suspect-lane.ts'
import { Takeovers } from './takeovers.ts'

/** The maximum number of messages that a shard's window holds, and the maximum size of their payloads. */
const WINDOW = { messages: 500, bytes: 4 * 1024 * 1024 } as const
/** When rows that could not be parked, because another transaction has locked them, are looked at again. */
const LOCKED_PAUSE_MS = 500

/** What the shards of a local consumer share. */
export interface ShardTools {
  readonly store: LocalStore
  readonly settlements: Pick<LocalStore, 'settle'>
  readonly suspectLane: SuspectLane
  readonly handleTimeoutMs: number
  /** The maximum number of attempts of a message. */
  readonly attempts: number
  /** The maximum number of messages of one key that are out at the same time. */
  readonly runLength: number
  /** Whether the consumer has a handler for the type. */
  readonly handles: (type: string | undefined) => boolean
  /** Called for messages whose type has no handler. */
  readonly unhandled: (type: string | undefined) => void
  /** Called when messages may be ready that were not. */
  readonly news: () => void
  /** Called when a statement has failed that finds messages. */
  readonly failed: (error: unknown) => void
  /** Called when another statement has failed. */
  readonly reported: (error: unknown) => void
  readonly taken: (held: LocalHeldShard) => void
  /** Called when a suspect was made a dead letter without another attempt. */
  readonly gaveUp: (delivery: MessageDelivery, error: Error) => void
  /** Called when a message was handled. */
  readonly handled: () => void
}

/** One shard of a local consumer under one lease: its messages from their read until they are settled. */
export class LocalShardWork implements DeliveryOwner {
  readonly #held: LocalHeldShard
  readonly #at: LocalShard
  readonly #tools: ShardTools
  readonly #window: ShardWindow
  readonly #watch: LocalCrashWatch
  readonly #takeovers: Takeovers | undefined
  readonly #settlements: GatheredSettlements
  readonly #locks: GatheredLocks
  readonly #removals: GatheredLocks
  readonly #parked: ParkedTurns
  readonly #turns: ShardTurns
  readonly #over = new AbortController()
  readonly #out = new Set<MessageDelivery>()
  /** The question whether the server is another one. */
  #asking: Promise<unknown> | undefined
  readonly #prepared: PreparedRows

  constructor(held: LocalHeldShard, tools: ShardTools) {
    const { store, failed, reported, taken, handleTimeoutMs, runLength } = tools
    const at = { consumer: held.consumer, shard: held.shard }
    const over = this.#over.signal
    const { lease } = held
    this.#held = held
    this.#at = at
    this.#tools = tools
    this.#window = new ShardWindow(WINDOW, runLength)
    this.#watch = new LocalCrashWatch(held, store, reported)
    this.#parked = new ParkedTurns({ held, at, store, window: this.#window, watch: this.#watch })
    if (lease.crashes > 0) {
      this.#takeovers = new Takeovers(performance.now() + handleTimeoutMs, {
        isKeyUnlocked: (key) => store.isKeyUnlocked(at, key),
        resume: (lane) => this.#resume(lane),
        failed: reported,
        over,
      })
    }
    this.#settlements = new GatheredSettlements({
      settle: (settlement) => tools.settlements.settle(lease, at, settlement),
      failed: reported,
      taken: () => taken(held),
      sawLocked: () => this.#sawLocked(),
      over,
    })
    this.#prepared = new PreparedRows({
      ...{ at, store, over, window: this.#window, watch: this.#watch, limits: WINDOW },
      ...{ suspectLane: tools.suspectLane, attempts: tools.attempts, handles: tools.handles },
      settle: (row, settling) => this.settle(row, settling),
      count: (refused) => this.#settlements.add({ refused }),
      parkUnhandled: (row) => this.#parkUnhandled(row),
      skip: (row) => this.#resumeIn(row.lane, this.#window.skip(row)),
      gaveUp: (row, error) => tools.gaveUp(new MessageDelivery(row, this, { isSuspect: true }), error),
      failed: (error) => this.#failed(error),
      news: () => this.#news(),
      wake: () => this.#turns.wake(),
    })
    this.#locks = new GatheredLocks((session, rows) => store.lock(session, lease, at, rows))
    this.#removals = new GatheredLocks(async (session, rows) => {
      await store.remove(session, at, rows)
      return rows
    })
    this.#turns = new ShardTurns({
      ...{ held, at, store, window: this.#window, watch: this.#watch, parked: this.#parked },
      news: () => this.#news(),
      failed,
      trySuspect: () => this.#prepared.trySuspect(),
      parkBehind: (rows) => void this.#parkBehind(rows),
      taken: () => taken(held),
      isOver: () => over.aborted || !held.isTrusted || held.isLeaving,
    })
    // Otherwise the first poll says whether there is anything to read.
    if (held.crashes > 0) this.found({ waiting: true, due: true })
    else this.#turns.wake()
  }

  get isTrusted(): boolean {
    return !this.#over.signal.aborted && this.#held.isTrusted
  }

  get #mayBegin(): boolean {
    return this.isTrusted && !this.#held.isLeaving && this.#watch.hasBegun
  }

  /** Whether nothing is being done that could make a message due. */
  get isQuiet(): boolean {
    return this.#out.size === 0 && !this.#turns.isRunning && !this.#parked.hasReleases
  }

  /** Hands out messages, without waiting: those of the keys that are free. */
  take(limit: number): readonly MessageDelivery[] {
    if (!this.#mayBegin) return []
    const deliveries = this.#prepared.take(limit).map(({ row, isSuspect }) => this.#deliver(row, isSuspect))
    const room = limit - deliveries.length
    if (room > 0 && this.#window.isReady && !this.#prepared.isNoting) {
      const rows = this.#takeRows(room)
      if (this.#watch.isActive) void this.#prepared.note(rows)
      else deliveries.push(...rows.map((row) => this.#deliver(row, false)))
      // The window may have room for more.
      this.#turns.wake()
    }
    return deliveries
  }

  /** Must be called when a poll has found rows. */
  found({ waiting, due }: { readonly waiting: boolean; readonly due: boolean }): void {
    if (waiting) this.#window.mayHaveMore()
    if (due) this.#parked.sawDue()
    this.#turns.wake()
  }

  /** Must be called when the lease is lost, or the source is closed: nothing begins and nothing is settled from now on. */
  lose(): void {
    if (this.#over.signal.aborted) return
    this.#over.abort()
    this.#turns.end()
    this.#prepared.end()
    for (const delivery of this.#out) delivery.lose()
  }

  /** Rows of one batch ask together. */
  async isCurrent(row: WindowRow): Promise<boolean> {
    this.#asking ??= this.#tools.store.work([this.#at]).finally(() => (this.#asking = undefined))
    await this.#asking
    this.#turns.noticeServer()
    return row.isVoid !== true
  }

  /** Without batches, a transaction has one row: there is nothing to gather. */
  async lock(session: Session, row: WindowRow): Promise<boolean> {
    if (this.#tools.runLength > 1) return this.#locks.add(session, row.message)
    const locked = await this.#tools.store.lock(session, this.#held.lease, this.#at, [row.message])
    return locked.length === 1
  }

  async remove(session: Session, row: WindowRow): Promise<void> {
    if (this.#tools.runLength > 1) await this.#removals.add(session, row.message)
    else await this.#tools.store.remove(session, this.#at, [row.message])
  }

  async settle(row: WindowRow, settling: Settling): Promise<void> {
    const isParked = 'refused' in settling && settling.refused.retryInMs !== undefined
    // A row of a run that was parked behind an earlier one is settled by that.
    if (row.state !== 'out') return
    if (!isParked) return void (await this.#settlements.add(settling))
    this.#window.refusing(row)
    await this.#settlements.add(settling)
    // It may have been parked behind an earlier row of its run meanwhile.
    if (row.state !== 'out' || this.#over.signal.aborted) return
    const behind = this.#window.refused(row)
    if (behind.length > 0) await this.#settleBehind(behind)
    for (const lane of this.#window.parked([row])) this.#resumeIn(lane, LOCKED_PAUSE_MS)
    if ('refused' in settling) this.#parked.dueIn(settling.refused.retryInMs ?? 0)
  }

  ended(delivery: MessageDelivery, end: DeliveryEnd): void {
    const { row } = delivery
    this.#out.delete(delivery)
    this.#prepared.ended(row)
    if (!this.#over.signal.aborted) this.#ended(row, end)
    if (this.#out.size === 0) this.#held.endWork()
    this.#turns.wake()
    this.#news()
  }

  #ended(row: WindowRow, end: DeliveryEnd): void {
    const { state, lane } = row
    if (end.how === 'settled') this.#tools.handled()
    // A row that was parked has left the window already.
    if (state !== 'out') return
    if (end.how === 'settled') this.#window.done(row)
    else if (end.how === 'unknown') {
      this.#resumeIn(lane, this.#window.skip(row))
      this.#sawLocked()
    } else if (end.afterMs === 0) this.#window.back(row)
    else {
      this.#window.backLater(row)
      this.#resumeIn(lane, end.afterMs)
    }
  }

  #takeRows(limit: number): readonly WindowRow[] {
    const { handles } = this.#tools
    const rows = this.#window.take(limit, {
      mayBegin: (lane) => this.#takeovers?.mayBegin(lane) ?? true,
      mayFollow: ({ type }) => handles(type),
    })
    return rows.filter((row) => {
      if (this.#watch.isNoted(row.message)) this.#resumeIn(row.lane, this.#window.skip(row))
      else if (handles(row.message.type)) return true
      else void this.#parkUnhandled(row)
      return false
    })
  }

  #deliver(row: WindowRow, isSuspect: boolean): MessageDelivery {
    const delivery = new MessageDelivery(row, this, { isSuspect })
    if (this.#out.size === 0) this.#held.beginWork()
    this.#out.add(delivery)
    return delivery
  }

  /** Parks a message whose type has no handler, with its key. */
  async #parkUnhandled(row: WindowRow): Promise<void> {
    this.#tools.unhandled(row.message.type)
    await this.settle(row, { refused: unhandledRefusal(row.message) })
    this.#news()
  }

  /** Parks waiting rows behind a parked row of their key, which may have gone meanwhile. */
  async #parkBehind(rows: readonly WindowRow[]): Promise<void> {
    await this.#settleBehind(rows)
    if (this.#over.signal.aborted) return
    for (const { lane } of rows) if (lane.key !== undefined) this.#parked.release(lane.key)
    this.#turns.wake()
  }

  async #settleBehind(rows: readonly WindowRow[]): Promise<void> {
    const locked = await this.#settlements.add({ behind: rows.map(({ message }) => message) })
    for (const lane of this.#window.parked(rows, locked)) this.#resumeIn(lane, LOCKED_PAUSE_MS)
  }

  #resumeIn(lane: KeyLane, pauseMs: number): void {
    setTimeout(() => this.#resume(lane), pauseMs).unref()
  }

  #resume(lane: KeyLane): void {
    if (this.#over.signal.aborted) return
    const behind = this.#window.resume(lane)
    if (behind.length > 0) void this.#parkBehind(behind)
    this.#parked.sawDue()
    this.#turns.wake()
    this.#news()
  }

  #sawLocked(): void {
    this.#parked.sawLocked()
    this.#turns.wake()
  }

  #news(): void {
    if (this.#window.isReady || this.#prepared.size > 0) this.#tools.news()
  }

  #failed(error: unknown): void {
    if (!this.#over.signal.aborted) this.#tools.reported(error)
  }
}
