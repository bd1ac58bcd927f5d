import { OptionChecker } from '../options/options.ts'
import { LIMITS } from '../options/limits.ts'

/** How often, and after which pause, a failed operation is tried again. */
export interface RetryPolicy {
  /** The number of attempts in all, the first included. */
  readonly attempts: number
  /**
   * Returns the pause after attempt number `attempt` (1 is the first), in milliseconds. A pure function: `random`
   * returns a number from 0 (inclusive) to 1 (exclusive).
   */
  delayMs(attempt: number, random: () => number): number
}

/**
 * Returns a policy with exponential backoff and equal jitter: each pause is a random value between half and all of
 * `min(maxMs, minMs × 2^(attempt − 1))`, so that the retries of a burst of failures spread out.
 *
 * @throws {InvalidOptionError} when an option is out of its bounds.
 */
export function exponentialBackoff(
  options: {
    /** The number of attempts in all, 1 to 1000. @default 10 */
    attempts?: number | undefined
    /** The pause before the second attempt, before jitter. @default 1000 */
    minMs?: number | undefined
    /** The longest pause. @default 300_000, or `minMs` if that is longer */
    maxMs?: number | undefined
  } = {},
): RetryPolicy {
  const check = new OptionChecker('exponentialBackoff', options).known('attempts', 'minMs', 'maxMs')
  const attempts = check.integer('attempts', { min: 1, max: 1000, default: 10 })
  const minMs = check.milliseconds('minMs', { min: 1, max: LIMITS.durationMs, default: 1000 })
  const maxMs = check.milliseconds('maxMs', {
    min: minMs,
    max: LIMITS.durationMs,
    default: Math.max(minMs, 300_000),
  })
  return {
    attempts,
    delayMs(attempt, random) {
      const ceiling = Math.min(maxMs, minMs * 2 ** Math.min(attempt - 1, 50))
      return ceiling / 2 + (random() * ceiling) / 2
    },
  }
}
