import type { LocalRefusal, LocalShard, LocalStore, ReadLimits } from '@txbox/core/ports'
import type { Settling } from './gathered-settlements.ts'
import type { WindowRow } from './key-lane.ts'
import type { LocalCrashWatch } from './local-crash-watch.ts'
import { crashedRefusal, suspectedRefusal } from './local-refusals.ts'
import type { ShardWindow } from './shard-window.ts'
import type { SuspectLane } from './suspect-lane.ts'

/** A row that may be handed out at once. */
export interface PreparedRow {
  readonly row: WindowRow
  readonly isSuspect: boolean
}

interface PreparingTools {
  readonly at: LocalShard
  readonly store: LocalStore
  readonly limits: ReadLimits
  readonly window: ShardWindow
  readonly watch: LocalCrashWatch
  readonly suspectLane: SuspectLane
  /** The number of attempts after which a suspect is given up. */
  readonly attempts: number
  readonly handles: (type: string | undefined) => boolean
  readonly settle: (row: WindowRow, settling: Settling) => Promise<void>
  /** Counts an attempt of a suspect. */
  readonly count: (refused: LocalRefusal) => Promise<unknown>
  readonly parkUnhandled: (row: WindowRow) => Promise<void>
  /** Lets a row be read again after a pause. */
  readonly skip: (row: WindowRow) => void
  /** Called when a suspect was made a dead letter. */
  readonly gaveUp: (row: WindowRow, error: Error) => void
  readonly failed: (error: unknown) => void
  /** Aborted when the lease is lost. */
  readonly over: AbortSignal
  /** Called when rows may be handed out that could not. */
  readonly news: () => void
  /** Called when another suspect may be tried. */
  readonly wake: () => void
}

/** What must be written down before messages are handed out, after owners of the shard have died: notes, and the attempts of suspects. */
export class PreparedRows {
  readonly #tools: PreparingTools
  readonly #prepared: PreparedRow[] = []
  #isNoting = false
  /** The suspect that is tried, or is about to be. */
  #suspect: WindowRow | undefined

  constructor(tools: PreparingTools) {
    this.#tools = tools
  }

  get size(): number {
    return this.#prepared.length
  }

  /** Whether messages are being noted: no others are taken meanwhile. */
  get isNoting(): boolean {
    return this.#isNoting
  }

  take(limit: number): readonly PreparedRow[] {
    return this.#prepared.splice(0, limit)
  }

  /** Notes the messages in flight, and prepares those that are about to be handed out. */
  async note(rows: readonly WindowRow[]): Promise<void> {
    if (rows.length === 0) return
    const { watch, window, skip, failed, news } = this.#tools
    this.#isNoting = true
    try {
      await watch.note(window.out.map(({ message }) => message))
      this.#prepared.push(...rows.map((row) => ({ row, isSuspect: false })))
    } catch (error) {
      for (const row of rows) skip(row)
      failed(error)
    }
    this.#isNoting = false
    news()
  }

  /** Prepares the first suspect that is due, unless another suspect of the consumer is tried. Its attempt is counted first. */
  async trySuspect(): Promise<void> {
    const { at, store, limits, watch, window, suspectLane, wake, over } = this.#tools
    // After `end`, nothing would leave the lane, and the other shards of the consumer would wait forever.
    if (over.aborted || this.#suspect !== undefined || !suspectLane.enter(this, wake)) return
    try {
      const message = await store.readSuspect(at, limits)
      watch.sawSuspect(message !== undefined)
      this.#suspect = message && window.takeSuspect(message)
      if (this.#suspect !== undefined && !(await this.#prepareSuspect(this.#suspect)))
        this.#suspect = undefined
    } finally {
      if (this.#suspect === undefined) suspectLane.leave(this)
    }
  }

  /** Must be called when a row that was handed out has ended. */
  ended(row: WindowRow): void {
    if (this.#suspect !== row) return
    this.#suspect = undefined
    // There may be another one.
    this.#tools.watch.sawSuspect(true)
    this.#tools.suspectLane.leave(this)
  }

  /** Nothing is prepared from now on. */
  end(): void {
    this.#tools.suspectLane.leave(this)
  }

  /** @returns whether the suspect may be handed out. */
  async #prepareSuspect(row: WindowRow): Promise<boolean> {
    const { attempts, handles, settle, count, parkUnhandled, window, gaveUp, news, wake, over } = this.#tools
    const { message } = row
    if (message.attempts >= attempts) {
      const { refusal, error } = crashedRefusal(message)
      await settle(row, { refused: refusal })
      if (over.aborted) return false
      window.done(row)
      gaveUp(row, error)
      // The next message of the key must be made due.
      wake()
      return false
    }
    if (!handles(message.type)) {
      await parkUnhandled(row)
      return false
    }
    await count(suspectedRefusal(message, message.attempts + 1))
    this.#prepared.push({ row, isSuspect: true })
    news()
    return true
  }
}
