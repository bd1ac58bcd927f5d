import type { LocalMessage, LocalShard, LocalStore } from '@txbox/core/ports'
import type { LocalCrashWatch } from './local-crash-watch.ts'
import type { LocalHeldShard } from './local-membership.ts'
import type { ShardWindow } from './shard-window.ts'

/** How often keys are looked for that wait although none of their messages is due. */
const HEAL_MS = 60_000
/** When they are looked for after a locked row was seen. */
const HEAL_AFTER_LOCK_MS = 500
/** While the window is full, parked messages are read this often. */
const FULL_MS = 1000
/** A message that is due now by the clock of this process may be due a little later by that of the database. */
const LATER_MS = 5

interface ParkedTools {
  readonly held: LocalHeldShard
  readonly at: LocalShard
  readonly store: LocalStore
  readonly window: ShardWindow
  readonly watch: LocalCrashWatch
}

/** The parked messages of one shard: reads those that are due, and makes the next ones of their keys due. */
export class ParkedTurns {
  readonly #tools: ParkedTools
  /** Keys whose first parked message must be made due. */
  readonly #releases = new Set<string>()
  #isDue = false
  #dueAt = Infinity
  #healAt = -Infinity
  #lookedAt = -Infinity

  constructor(tools: ParkedTools) {
    this.#tools = tools
  }

  /** Must be called when parked messages may be due. */
  sawDue(): void {
    this.#isDue = true
  }

  /** Must be called when a message was parked. */
  dueIn(ms: number): void {
    this.#dueAt = Math.min(this.#dueAt, performance.now() + ms + LATER_MS)
  }

  /** The first parked message of the key is made due in the next turn. */
  release(key: string): void {
    this.#releases.add(key)
  }

  /** Whether keys must be released: their next messages are not due yet. */
  get hasReleases(): boolean {
    return this.#releases.size > 0 || this.#tools.window.hasFreed
  }

  /** Must be called when another transaction has locked a row: a key may not have been released because of that. */
  sawLocked(): void {
    this.#healAt = Math.min(this.#healAt, performance.now() + HEAL_AFTER_LOCK_MS)
  }

  /** When the next turn has something to do, if nothing else happens. */
  get nextAt(): number {
    return Math.min(this.#healAt, this.#dueAt)
  }

  async turn(): Promise<void> {
    await this.#release()
    const now = performance.now()
    if (now >= this.#healAt) await this.#heal(now)
    const isFull = this.#tools.window.isFull && now - this.#lookedAt < FULL_MS
    if ((this.#isDue || now >= this.#dueAt) && !isFull) await this.#readDue(now)
  }

  async #release(): Promise<void> {
    for (const key of this.#tools.window.takeFreed()) this.#releases.add(key)
    const keys = [...this.#releases]
    if (keys.length === 0) return
    this.#releases.clear()
    try {
      await this.#tools.store.release(this.#tools.held.lease, this.#tools.at, keys)
    } catch (error) {
      for (const key of keys) this.#releases.add(key)
      throw error
    }
    this.#isDue = true
  }

  async #heal(now: number): Promise<void> {
    const { store, held, at, watch } = this.#tools
    await watch.suspectLeft()
    this.#healAt = now + HEAL_MS
    try {
      if ((await store.healKeys(held.lease, at)) > 0) this.#isDue = true
    } catch (error) {
      this.#healAt = now
      throw error
    }
    if (watch.hasNoted) this.sawLocked()
  }

  async #readDue(now: number): Promise<void> {
    const { store, held, at, window, watch } = this.#tools
    const isFirstSinceDue = this.#isDue
    this.#isDue = false
    this.#dueAt = Infinity
    this.#lookedAt = now
    const read = window.nextDueRead()
    let messages: readonly LocalMessage[]
    try {
      messages = await store.readDue(held.lease, at, read.limits)
    } catch (error) {
      window.failed(read)
      this.#isDue = true
      throw error
    }
    if (window.addDue(read, messages)) this.#isDue = true
    // A suspect that waited behind another message of its key may be due now, whatever other parked messages there are.
    if (isFirstSinceDue) watch.sawSuspect(true)
    if (messages.length === 0) watch.triedParked()
  }
}
