import { exponentialBackoff } from '@txbox/core'
import { pause } from '@txbox/core/internal'
import type { DatabaseErrors } from '../errors/database-errors.ts'

const ATTEMPTS = 5

/** For clusters: the change that caused the conflict must first arrive from its node. */
const LONG_PAUSE = exponentialBackoff({ minMs: 50, maxMs: 1000 })

/**
 * Runs work that may be repeated, up to five times, as long as the database asks for another attempt. Unlike
 * `attemptsOnConflict` of core, repeats at once unless the conflict lasts: the work is short, and its caller may hold a
 * lease or a receipt.
 *
 * @throws the translated error of the last attempt.
 */
export async function repeatOnConflict<R>(
  errors: DatabaseErrors,
  doing: string,
  attempt: () => Promise<R>,
): Promise<R> {
  for (let n = 1; ; n++) {
    try {
      return await attempt()
    } catch (error) {
      if (n === ATTEMPTS || !errors.isWorthRepeating(error)) throw errors.translate(error, doing)
      if (errors.isLastingConflict(error)) await pause(LONG_PAUSE.delayMs(n, Math.random))
    }
  }
}
