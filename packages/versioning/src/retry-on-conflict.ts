import { InvalidOptionError, exponentialBackoff, isTxboxError } from '@txbox/core'
import { OptionChecker, nameOf, pause } from '@txbox/core/internal'

/** Pauses are short, because the writer that won the conflict has already written. */
const PAUSE = exponentialBackoff({ minMs: 10, maxMs: 1000, attempts: 100 })

/**
 * Calls `fn`, and if it throws a `VersionConflictError`, calls it again after a short, random and growing pause. No
 * other error is retried. `fn` must read the row again in each call, and must open its own transaction if it needs one.
 *
 * @returns the result of `fn`.
 * @throws the last `VersionConflictError` when all attempts failed with one; any other error of `fn`, at once and
 *   unchanged; the reason of the signal when the signal is aborted between attempts.
 * @throws {InvalidOptionError} for a wrong option.
 */
export async function retryOnConflict<R>(
  fn: (attempt: number) => Promise<R>,
  options: {
    /** The maximum number of calls of `fn`, 1 to 100. @default 3 */
    attempts?: number | undefined
    /** Aborting the signal prevents the next attempt. */
    signal?: AbortSignal | undefined
  } = {},
): Promise<R> {
  if (typeof fn !== 'function') {
    throw new InvalidOptionError(`retryOnConflict: expected a function, not ${nameOf(fn)}.`)
  }
  const check = new OptionChecker('retryOnConflict', options).known('attempts', 'signal')
  const attempts = attemptsOf(check)
  const signal = check.signal('signal')
  return attemptsOnConflict(fn, { attempts, signal, isConflict: isVersionConflict })
}

/** Checks the option `attempts`, with the same bounds for all functions. */
export function attemptsOf(check: OptionChecker): number {
  return check.integer('attempts', { min: 1, max: PAUSE.attempts, default: 3 })
}

export function isVersionConflict(error: unknown): boolean {
  return isTxboxError(error) && error.code === 'TXBOX_VERSION_CONFLICT'
}

/** Calls `fn` up to `attempts` times, as long as it throws errors for which `isConflict` returns true. */
export async function attemptsOnConflict<R>(
  fn: (attempt: number) => Promise<R>,
  options: {
    readonly attempts: number
    readonly signal?: AbortSignal | undefined
    readonly isConflict: (error: unknown) => boolean
  },
): Promise<R> {
  const { attempts, signal, isConflict } = options
  for (let attempt = 1; ; attempt++) {
    signal?.throwIfAborted()
    try {
      return await fn(attempt)
    } catch (error) {
      if (attempt === attempts || !isConflict(error)) throw error
    }
    await pause(PAUSE.delayMs(attempt, Math.random), signal)
  }
}
