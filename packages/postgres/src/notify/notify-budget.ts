/* Only PostgreSQL can notify. */

/** A budget that was not used for a while allows so many notifying transactions at once. */
const BURST = 5
/** Together with the burst, at most 20 transactions in any second. */
const PER_SECOND = 15
/** Only those who have been silent for a second may take the last ones of the budget. */
const RESERVE = 2
const SILENCE_MS = 1000
/** The names of queues may be many. */
const MAX_REMEMBERED = 1000

/**
 * Decides which transactions notify: the first after a silence, and few of a stream, because all notifying transactions of a
 * server commit one after the other. The listeners find the messages of the others soon, because they poll often while there are
 * messages.
 */
export class NotifyBudget {
  readonly #now: () => number
  /** How many transactions may notify now. */
  #left: number = BURST
  #countedAt: number
  /** When a transaction has last notified of each kind of message. */
  readonly #lastAt = new Map<string, number>()

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
    this.#countedAt = now()
  }

  /** @returns whether a transaction with messages of these kinds may notify. */
  take(kinds: readonly string[]): boolean {
    const now = this.#now()
    this.#left = Math.min(BURST, this.#left + ((now - this.#countedAt) / 1000) * PER_SECOND)
    this.#countedAt = now
    const isFirst = kinds.some((kind) => now - (this.#lastAt.get(kind) ?? -Infinity) >= SILENCE_MS)
    if (this.#left < 1 + (isFirst ? 0 : RESERVE)) return false
    this.#left -= 1
    for (const kind of kinds) this.#remember(kind, now)
    return true
  }

  #remember(kind: string, now: number): void {
    this.#lastAt.delete(kind)
    this.#lastAt.set(kind, now)
    if (this.#lastAt.size <= MAX_REMEMBERED) return
    // The first entry is the oldest one.
    for (const oldest of this.#lastAt.keys()) {
      this.#lastAt.delete(oldest)
      return
    }
  }
}
