import { InvalidOptionError, LIMITS } from '@txbox/core'
import { nameOf } from '@txbox/core/internal'

/** The delay in place of one that is not usable. */
export const FALLBACK_DELAY_MS = 1000

/** Returns whether a source can keep this delay. A retry policy, an error or a dedup store of the user's may give any value. */
export function isUsableDelay(delayMs: unknown): boolean {
  return typeof delayMs === 'number' && delayMs >= 0 && delayMs <= LIMITS.durationMs
}

export function unusableDelay(consumer: string, delivery: number, delayMs: unknown): InvalidOptionError {
  return new InvalidOptionError(
    `Consumer '${consumer}': the delay after delivery ${delivery} of a message must be a number of milliseconds from 0 to ` +
      `${LIMITS.durationMs}, not ${nameOf(delayMs)}. The message is retried in ${FALLBACK_DELAY_MS} ms. Correct delayMs of ` +
      'the retry policy, or retryAfterMs of the error.',
  )
}
