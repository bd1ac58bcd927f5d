import { unanswered, within } from '@txbox/core/internal'

const ANSWER_MS = 2000

/** The pools whose idle connections are being checked. */
const checking = new WeakSet<object>()

interface IdleConnections {
  /** The pool itself, and not one of several wrappers around it. */
  readonly pool: object
  /** How many connections the pool can lend now without opening one. NaN if the pool does not show it. */
  readonly count: number
  /** Takes a connection out of the pool in the tick of the call, or in the next one. */
  readonly lend: () => Promise<IdleConnection>
}
interface IdleConnection {
  readonly ask: () => Promise<unknown>
  readonly release: (broken: boolean) => void
}

/**
 * Call this when a connection of the pool got no answer: the network may have lost the idle connections, too, and each
 * of them would cost one statement its time limit. Asks all of them at the same time, and discards those that do not
 * answer. Meanwhile the pool lends none of them. Nothing waits for the check, and an error of the check is of no interest.
 */
export function discardDeadIdle({ pool, count, lend }: IdleConnections): void {
  if (!(count > 0) || checking.has(pool)) return
  checking.add(pool)
  const checks = Array.from({ length: count }, () => check(lend))
  void Promise.allSettled(checks).then(() => checking.delete(pool))
}

async function check(lend: IdleConnections['lend']): Promise<void> {
  const { ask, release } = await lend()
  let broken = true
  try {
    await within(ask(), ANSWER_MS, unanswered)
    broken = false
  } finally {
    release(broken)
  }
}
