import { pause } from '@txbox/core/internal'

const FIRST_PAUSE_MS = 50
/** How long a call waits for a topic that was just made, or for a leader that just moved. */
const PATIENCE_MS = 2500

/** How long a call still waits for one topic: the pauses double. */
export class Patience {
  #beganAt: number | undefined
  #pauseMs = FIRST_PAUSE_MS

  /** Waits for a moment. @returns false, at once, when the call has waited long enough. */
  async wait(signal: AbortSignal): Promise<boolean> {
    this.#beganAt ??= performance.now()
    const leftMs = this.#beganAt + PATIENCE_MS - performance.now()
    if (leftMs <= 0) return false
    await pause(Math.min(this.#pauseMs, leftMs), signal)
    this.#pauseMs *= 2
    return true
  }
}
