import { isTxboxError } from '@txbox/core'
import type { LocalShard, LocalStore } from '@txbox/core/ports'
import type { WindowRow } from './key-lane.ts'
import type { LocalCrashWatch } from './local-crash-watch.ts'
import type { LocalHeldShard } from './local-membership.ts'
import type { ParkedTurns } from './parked-turns.ts'
import type { ShardWindow } from './shard-window.ts'

/** While the lease is in doubt, this pause is between two looks. */
const DOUBT_MS = 200
/** The pauses of a shard whose statements fail. */
const PAUSES_MS = { shortest: 100, longest: 5000 } as const

interface TurnTools {
  readonly held: LocalHeldShard
  readonly at: LocalShard
  readonly store: LocalStore
  readonly window: ShardWindow
  readonly watch: LocalCrashWatch
  readonly parked: ParkedTurns
  /** Looks for a suspect. */
  readonly trySuspect: () => Promise<void>
  readonly parkBehind: (rows: readonly WindowRow[]) => void
  /** Called when messages may be ready that were not. */
  readonly news: () => void
  readonly failed: (error: unknown) => void
  readonly taken: () => void
  /** Whether nothing may be read any more. */
  readonly isOver: () => boolean
}

/**
 * The statements of one shard outside of the transactions of handlers and apart from settlements, one after the other: while
 * handlers run, the shard is read on.
 */
export class ShardTurns {
  readonly #tools: TurnTools
  #generation: number
  #isRunning = false
  #isAgain = false
  #hasEnded = false
  #failures = 0
  #timer: NodeJS.Timeout | undefined

  constructor(tools: TurnTools) {
    this.#tools = tools
    this.#generation = tools.store.generation
  }

  /** Whether a turn is in progress. */
  get isRunning(): boolean {
    return this.#isRunning
  }

  /** Something may have to be done. */
  wake(): void {
    this.#isAgain = true
    if (!this.#isRunning) void this.#run()
  }

  /** Nothing is done from now on. */
  end(): void {
    this.#hasEnded = true
    clearTimeout(this.#timer)
  }

  async #run(): Promise<void> {
    const { isOver, news } = this.#tools
    this.#isRunning = true
    clearTimeout(this.#timer)
    let pauseMs = 0
    while (this.#isAgain && pauseMs === 0 && !isOver()) {
      this.#isAgain = false
      try {
        await this.#turn()
        this.#failures = 0
      } catch (error) {
        pauseMs = this.#failed(error)
      }
      this.noticeServer()
      news()
    }
    this.#isRunning = false
    // While the lease is in doubt nothing is done; it may be renewed, and then nothing else would set the timer.
    if (!this.#hasEnded) this.#wakeLater(isOver() ? Math.max(pauseMs, DOUBT_MS) : pauseMs)
  }

  async #turn(): Promise<void> {
    const { watch, parked, trySuspect, window, isOver } = this.#tools
    await watch.begin()
    await parked.turn()
    if (watch.hasSuspects) await trySuspect()
    if (!isOver()) await this.#read()
    await watch.end((seq) => window.isPast(seq))
  }

  async #read(): Promise<void> {
    const { store, at, window, watch, parkBehind } = this.#tools
    const read = window.nextRead(performance.now())
    if (read === undefined) return
    const { limits, after, without = [] } = read
    let behind: readonly WindowRow[]
    try {
      const result = await store.read(at, limits, { after, without })
      // What another server has answered before is not mixed with this.
      this.noticeServer()
      behind = window.add(read, result, performance.now())
      if (read.without === undefined) watch.sawWaiting(result.messages)
    } catch (error) {
      window.failed(read)
      window.mayHaveMore()
      throw error
    }
    if (behind.length > 0) parkBehind(behind)
    this.#isAgain = true
  }

  /** Forgets what was read if the server is another one, or its data has gone back in time. */
  noticeServer(): void {
    const { store, window, parked } = this.#tools
    if (store.generation === this.#generation) return
    this.#generation = store.generation
    window.forget()
    parked.sawDue()
    this.#isAgain = true
  }

  /** @returns the pause before the next turn. */
  #failed(error: unknown): number {
    const { taken, failed, isOver } = this.#tools
    if (isOver()) return 0
    if (isTxboxError(error) && error.code === 'TXBOX_LEASE_LOST') taken()
    else failed(error)
    this.#isAgain = true
    return Math.min(PAUSES_MS.longest, PAUSES_MS.shortest * 2 ** Math.min(this.#failures++, 10))
  }

  #wakeLater(pauseMs: number): void {
    const { parked, window } = this.#tools
    const now = performance.now()
    const nextAt = Math.min(parked.nextAt, window.aroundAt ?? Infinity)
    const waitMs = pauseMs > 0 ? pauseMs : Math.max(1, nextAt - now)
    this.#timer = setTimeout(() => this.wake(), Math.min(60_000, Math.ceil(waitMs)))
    this.#timer.unref()
  }
}
