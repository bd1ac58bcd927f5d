import { InvalidOptionError } from '../errors/errors.ts'
import { LIMITS } from '../options/limits.ts'
import { nameOf } from '../text/name-of.ts'

/**
 * Returns the pause before the next attempt that the user's code asks for: a retry policy, an error, or the result of a publisher
 * or of a dedup store. If this code throws, or gives anything but a number of milliseconds up to `LIMITS.durationMs`, the pause
 * is `insteadMs`, and the error to report is passed to `report`. A message must not wait forever for a wrong pause.
 */
export function usablePause(
  ask: () => unknown,
  context: {
    /** Such as `delivery 2 of a message`. */
    readonly after: string
    /** Such as `delayMs of the retry policy`. */
    readonly source: string
    readonly insteadMs: number
    readonly report: (error: InvalidOptionError) => void
  },
): number {
  const { after, source, insteadMs, report } = context
  let problem: string
  let thrown: { readonly cause: unknown } | undefined
  try {
    const ms = ask()
    if (typeof ms === 'number' && ms >= 0 && ms <= LIMITS.durationMs) return ms
    problem = `is ${nameOf(ms)}, not a number of milliseconds from 0 to ${LIMITS.durationMs}`
  } catch (cause) {
    problem = 'threw an error'
    thrown = { cause }
  }
  report(
    new InvalidOptionError(
      `After ${after}, ${source} ${problem}. The message is tried again in ${Math.round(insteadMs)} ms. Correct ${source}.`,
      thrown,
    ),
  )
  return insteadMs
}
