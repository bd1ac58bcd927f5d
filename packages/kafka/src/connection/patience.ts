import { pause } from '@txbox/core/internal'

const FIRST_PAUSE_MS = 50
/** How long to wait for a topic that was just made, a leader that just moved, or a broker that just started. */
const PATIENCE_MS = 2500

/** How long to wait for what passes by itself in moments: the pauses double. */
export class Patience {
  #beganAt: number | undefined
  #pauseMs = FIRST_PAUSE_MS

  /** Waits for a moment. @returns false, at once, after 2.5 s in all. */
  async wait(signal?: AbortSignal): Promise<boolean> {
    this.#beganAt ??= performance.now()
    const leftMs = this.#beganAt + PATIENCE_MS - performance.now()
    if (leftMs <= 0) return false
    await pause(Math.min(this.#pauseMs, leftMs), signal)
    this.#pauseMs *= 2
    return true
  }
}
