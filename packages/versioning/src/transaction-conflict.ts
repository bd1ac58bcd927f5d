import { TransactionConflictError, isTxboxError } from '@txbox/core'

/*
 * The user's own tables are reached through his Kysely, past the database packages, which translate the errors of all
 * other statements. So the codes that ask for another attempt are here once more.
 */

/** PostgreSQL: serialization failure, deadlock, lock not available. */
const SQLSTATES: ReadonlySet<unknown> = new Set(['40001', '40P01', '55P03'])
/** MySQL and MariaDB: deadlock; lock wait timeout; NOWAIT; changed since the snapshot; refused by the group. */
const NUMBERS: ReadonlySet<unknown> = new Set([1213, 1205, 3572, 1020, 3101])

/** Runs statements; an error by which the database asks for another attempt becomes a `TransactionConflictError`. */
export async function translatingConflicts<R>(doing: () => string, work: () => Promise<R>): Promise<R> {
  try {
    return await work()
  } catch (error) {
    if (!asksForAnotherAttempt(error)) throw error
    throw new TransactionConflictError(
      `${doing()}: the database asks for another attempt (${error.message}). Roll back and run the transaction again.`,
      { cause: error },
    )
  }
}

function asksForAnotherAttempt(error: unknown): error is Error {
  return (
    error instanceof Error &&
    !isTxboxError(error) &&
    (SQLSTATES.has(Reflect.get(error, 'code')) || NUMBERS.has(Reflect.get(error, 'errno')))
  )
}
