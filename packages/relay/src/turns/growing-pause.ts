const SHORTEST_MS = 100
const LONGEST_MS = 60_000

/** The pauses of one shard that fails: they double from the shortest to the longest, until the shard succeeds. */
export class GrowingPause {
  #failures = 0
  #until = -Infinity

  /** @returns the pause that begins now, in milliseconds. */
  failed(now: number, longestMs: number = LONGEST_MS): number {
    const pauseMs = Math.min(longestMs, SHORTEST_MS * 2 ** Math.min(this.#failures++, 20))
    this.#until = now + pauseMs
    return pauseMs
  }

  succeeded(): void {
    this.#failures = 0
  }

  remainingMs(now: number): number {
    return Math.max(0, this.#until - now)
  }
}
