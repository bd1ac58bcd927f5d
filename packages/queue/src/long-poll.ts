import type { WakeUpCall } from './wake-up-call.ts'

/**
 * How often to look for messages while there are none: at first after `min` milliseconds, then at growing intervals up
 * to `max`.
 */
export interface PollIntervals {
  readonly min: number
  readonly max: number
}

export const POLL_INTERVALS: PollIntervals = { min: 20, max: 500 }
const GROWTH = 1.5

interface PollLimits extends PollIntervals {
  readonly waitMs: number
  readonly signal: AbortSignal | undefined
}

/**
 * Looks until something is found: at growing intervals, and whenever the database notifies.
 *
 * @returns what was found; an empty array when `waitMs` is over or the signal is aborted.
 */
export async function longPoll<T>(
  look: () => Promise<readonly T[]>,
  wakeUpCall: WakeUpCall,
  { waitMs, signal, min, max }: PollLimits,
): Promise<readonly T[]> {
  const isAborted = (): boolean => signal?.aborted === true
  if (isAborted()) return []
  const deadline = performance.now() + waitMs
  let listens = false
  try {
    for (let pauseMs = min; ; pauseMs = Math.min(max, pauseMs * GROWTH)) {
      const { calls } = wakeUpCall
      const found = await look()
      const leftMs = deadline - performance.now()
      if (found.length > 0 || leftMs <= 0 || isAborted()) return found
      if (!listens) wakeUpCall.use()
      listens = true
      await wakeUpCall.pause(Math.min(pauseMs, leftMs), calls, signal)
      if (isAborted()) return []
    }
  } finally {
    if (listens) wakeUpCall.release()
  }
}
