import { DatabaseUnavailableError } from '@txbox/core'
import { unanswered, within } from '@txbox/core/internal'

/** The time within which a connection must answer: the connections are asked one after the other. */
const ANSWER_MS = 1000

/** How long the connections of a root are asked, after one gave no answer. */
const SUSPICION_MS = 60_000

/** The time of the last statement without an answer, by the monotonic clock. */
const unansweredAt = new WeakMap<object, number>()

/**
 * Call this when a connection of a root gave no answer, if the library hides the idle connections of its pool. The network may
 * have lost them, too, and each of them would cost one statement its time limit.
 */
export function suspectConnections(db: object): void {
  unansweredAt.set(db, performance.now())
}

/**
 * Returns whether a connection that was lent should be given back as broken. For a time after a connection of the root gave no
 * answer, the connection is asked for an answer before it is used.
 *
 * @param ask the promise of any answer.
 */
export async function isSilent(db: object, ask: () => Promise<unknown>): Promise<boolean> {
  if (performance.now() - (unansweredAt.get(db) ?? -Infinity) > SUSPICION_MS) return false
  try {
    await within(ask(), ANSWER_MS, unanswered)
    return false
  } catch (error) {
    // Another error is an answer, or shows a broken connection, on which the next statement fails at once.
    return error instanceof DatabaseUnavailableError
  }
}
