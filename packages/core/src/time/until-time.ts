import { within } from './within.ts'

/**
 * Waits for `work`, but not longer than until a time on the monotonic clock; then the result is that of `late`, which may throw. A
 * later result or error of `work` is ignored.
 *
 * @param endsAt `Infinity`: there is no limit.
 */
export function untilTime<T, L>(work: Promise<T>, endsAt: number, late: () => L): Promise<T | L> {
  return endsAt === Infinity ? work : within(work, Math.max(0, endsAt - performance.now()), late)
}
