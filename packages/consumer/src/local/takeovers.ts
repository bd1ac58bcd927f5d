import type { KeyLane } from './key-lane.ts'

/** How many keys are asked about at the same time. */
const MAX_PROBES = 4
/** The pause before a locked key is asked about again. */
const LOCKED_PAUSE_MS = 500
/** The maximum number of keys that are remembered. */
const MAX_KEYS = 100_000

interface TakeoverTools {
  /** Whether no other transaction has locked a row of the key. */
  readonly isKeyUnlocked: (key: string) => Promise<boolean>
  readonly resume: (lane: KeyLane) => void
  readonly failed: (error: unknown) => void
  /** Aborted when the lease is lost. */
  readonly over: AbortSignal
}

/**
 * After a lease was taken that its owner has not given back, the owner may still handle a message of a key, and not only the first
 * one. So for as long as a handler may run, the first message of a key begins only after none of the rows of the key was locked once.
 * That once is enough: the owner can lock no further row, because the lock itself asks for the lease.
 */
export class Takeovers {
  readonly #tools: TakeoverTools
  readonly #endsAt: number
  readonly #unlocked = new Set<string>()
  readonly #waiting: { readonly key: string; readonly lane: KeyLane }[] = []
  #probes = 0

  /** @param endsAt when no handler of the earlier owner can run any more, on the monotonic clock of this process. */
  constructor(endsAt: number, tools: TakeoverTools) {
    this.#endsAt = endsAt
    this.#tools = tools
  }

  /** @returns whether the key may begin. Otherwise it is asked about, and then resumed. */
  mayBegin(lane: KeyLane): boolean {
    const { key } = lane
    // A single row is safe by its own lock.
    if (key === undefined || performance.now() >= this.#endsAt || this.#unlocked.has(key)) return true
    this.#waiting.push({ key, lane })
    if (this.#probes < MAX_PROBES) void this.#probe()
    return false
  }

  async #probe(): Promise<void> {
    const { over, isKeyUnlocked, resume, failed } = this.#tools
    this.#probes += 1
    for (
      let next = this.#waiting.shift();
      next !== undefined && !over.aborted;
      next = this.#waiting.shift()
    ) {
      const { key, lane } = next
      let isUnlocked = false
      try {
        isUnlocked = await isKeyUnlocked(key)
      } catch (error) {
        failed(error)
      }
      if (over.aborted) return
      if (isUnlocked) {
        if (this.#unlocked.size >= MAX_KEYS) this.#unlocked.clear()
        this.#unlocked.add(key)
        resume(lane)
      } else setTimeout(() => over.aborted || resume(lane), LOCKED_PAUSE_MS).unref()
    }
    this.#probes -= 1
  }
}
