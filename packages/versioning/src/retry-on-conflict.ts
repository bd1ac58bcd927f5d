import { setTimeout as pause } from 'node:timers/promises'
import { InvalidOptionError, OptionChecker, exponentialBackoff, isTxboxError, nameOf } from '@txbox/core'

/** Short: whoever was in the way has just won. */
const PAUSE = exponentialBackoff({ minMs: 10, maxMs: 1000, attempts: 100 })

/**
 * Calls `fn` again, after a short random pause that grows, when it throws a `VersionConflictError`: and only then. `fn`
 * must read the row anew each time, and open a transaction of its own if it wants one.
 *
 * @returns what `fn` returns.
 * @throws the last `VersionConflictError` when all attempts have met one; any other error of `fn` at once and
 *   untouched; the signal's reason when it is aborted between attempts.
 * @throws {InvalidOptionError} for a wrong option.
 */
export async function retryOnConflict<R>(
  fn: (attempt: number) => Promise<R>,
  options: {
    /** How often `fn` is called at most, 1 to 100. @default 3 */
    attempts?: number | undefined
    /** Gives up before the next attempt. */
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

/** How often something is tried: the same bounds everywhere. */
export function attemptsOf(check: OptionChecker): number {
  return check.integer('attempts', { min: 1, max: PAUSE.attempts, default: 3 })
}

export function isVersionConflict(error: unknown): boolean {
  return isTxboxError(error) && error.code === 'TXBOX_VERSION_CONFLICT'
}

/** Calls `fn` up to `attempts` times while `isConflict` says so of what it throws. */
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
    await pause(PAUSE.delayMs(attempt, Math.random), undefined, signal === undefined ? {} : { signal })
  }
}
