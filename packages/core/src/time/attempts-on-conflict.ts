import { pause } from './pause.ts'
import { exponentialBackoff } from './retry-policy.ts'

/** Pauses are short, because the writer that won the conflict has already written, or is about to commit. */
const SHORT_PAUSE = exponentialBackoff({ minMs: 10, maxMs: 1000 })

/** Pauses are longer on clusters, because the change that caused the conflict must first arrive from its node. */
const LONG_PAUSE = exponentialBackoff({ minMs: 100, maxMs: 5000 })

/**
 * Calls `fn` up to `attempts` times, with growing pauses, as long as it throws conflicts. The signal is observed between
 * attempts.
 *
 * @param options `onConflict` is called before each pause.
 */
export async function attemptsOnConflict<R>(
  fn: (attempt: number) => Promise<R>,
  conflicts: { isConflict(error: unknown): boolean; isLastingConflict?(error: unknown): boolean },
  {
    attempts,
    signal,
    onConflict,
  }: {
    readonly attempts: number
    readonly signal?: AbortSignal | undefined
    readonly onConflict?: ((error: unknown, delayMs: number) => void) | undefined
  },
): Promise<R> {
  for (let attempt = 1; ; attempt++) {
    signal?.throwIfAborted()
    try {
      return await fn(attempt)
    } catch (error) {
      if (attempt === attempts || !conflicts.isConflict(error)) throw error
      const policy = conflicts.isLastingConflict?.(error) === true ? LONG_PAUSE : SHORT_PAUSE
      const delayMs = policy.delayMs(attempt, Math.random)
      onConflict?.(error, delayMs)
      await pause(delayMs, signal)
    }
  }
}
