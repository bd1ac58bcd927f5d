/**
 * The time that a suspect which has been tried before leaves to all others after a takeover, and after the first try of
 * another suspect. If it killed its process at once again and again, nothing else would move between two deaths.
 */
const CALM_MS = 1000

/** Keeps a suspect that has been tried before from going first again. */
export class SuspectCalm {
  #endsAt = -Infinity

  /** Must be called when a shard was taken over after a crash, and when a suspect is tried for the first time. */
  begin(): void {
    this.#endsAt = performance.now() + CALM_MS
  }

  /** The time for which a suspect that has been tried before must still wait. */
  get remainingMs(): number {
    return Math.max(0, this.#endsAt - performance.now())
  }
}
