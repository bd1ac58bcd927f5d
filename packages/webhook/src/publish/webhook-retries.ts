import { hours, type RetryPolicy } from '@txbox/core'

const MINUTE_MS = 60_000
/** The pauses after the first attempt, as Standard Webhooks recommends them. */
const PAUSES_MS: readonly number[] = [
  5000,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  ...[2, 5, 10, 14, 20, 24].map(hours),
]

/**
 * The retries that Standard Webhooks recommends: 10 attempts within 76 hours, the first at once, the others after 5 s, 5 min,
 * 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24 h. Pass it to the relay as the option `retry`.
 */
export function webhookRetries(): RetryPolicy {
  return {
    attempts: PAUSES_MS.length + 1,
    delayMs: (attempt) => PAUSES_MS[Math.min(attempt, PAUSES_MS.length) - 1] ?? PAUSES_MS[0]!,
  }
}
