import { OptionChecker } from './options.ts'
import { LIMITS } from './limits.ts'

/** How often, and after which pause, something that failed is tried again. */
export interface RetryPolicy {
  /** How many attempts in all, the first included. */
  readonly attempts: number
  /**
   * The pause after attempt number `attempt` (1 is the first), in milliseconds. Pure: `random` gives a number from 0
   * (inclusive) to 1 (exclusive).
   */
  delayMs(attempt: number, random: () => number): number
}

/**
 * Exponential back-off with equal jitter: a random pause between half and all of `min(maxMs, minMs × 2^(attempt − 1))`,
 * so that a burst of failures spreads out.
 *
 * @throws {InvalidOptionError} when an option is out of its bounds.
 */
export function exponentialBackoff(
  options: {
    /** @default 10; 1 to 1000 */
    attempts?: number | undefined
    /** Before the second attempt. @default 1000 */
    minMs?: number | undefined
    /** Never longer than this. @default 300 000 */
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
