import { AsyncLocalStorage } from 'node:async_hooks'
import { DatabaseUnavailableError } from '@txbox/core'
import { unanswered, within } from '@txbox/core/internal'

/** The wait of one statement of txbox for a connection of the user's pool. */
interface PoolWait {
  /** Whether the statement waits for a connection of a pool that has lent all of its connections. */
  isWaiting: boolean
  /** Whether the pool shows if it has lent all of its connections. */
  isKnown: boolean
}

const waits = new AsyncLocalStorage<PoolWait>()

/** Starts a statement. `late` is the error for a statement without an answer: it says which of the two did not answer. */
export function startOnPool<R>(start: () => Promise<R>): {
  readonly running: Promise<R>
  readonly late: (ms: number) => never
} {
  const wait: PoolWait = { isWaiting: false, isKnown: false }
  const running = waits.run(wait, start)
  const late = (ms: number): never => {
    if (wait.isWaiting) throw noFreeConnection(ms)
    return unanswered(ms, wait.isKnown ? undefined : 'No connection of the pool became free, or the database')
  }
  return { running, late }
}

/**
 * Waits for a statement, but not longer than `ms`.
 *
 * @throws {DatabaseUnavailableError} that says whether the database has not answered, or no connection became free.
 */
export function withinPool<R>(start: () => Promise<R>, ms: number): Promise<R> {
  const { running, late } = startOnPool(start)
  return within(running, ms, late)
}

/** Call this where a root lends a connection. `isFull` is whether the pool has lent all of its connections. */
export async function lentBy<C>(isFull: boolean, lend: () => Promise<C>): Promise<C> {
  const wait = waits.getStore()
  if (wait !== undefined) wait.isKnown = true
  if (wait === undefined || !isFull) return lend()
  wait.isWaiting = true
  try {
    return await lend()
  } finally {
    wait.isWaiting = false
  }
}

/** Some libraries hide whether their pool has lent all connections, or opens a further one. */
export function noFreeConnection(ms: number): Error {
  return new DatabaseUnavailableError(
    `No connection of the pool became free within ${ms} ms: all of them were in use, or no further one could be opened. ` +
      'Give the pool more connections, or pass txbox a pool of its own.',
  )
}
