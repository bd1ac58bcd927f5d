import { TransactionConflictError, isTxboxError } from '@txbox/core'

/*
 * Statements on the user's own tables go through the user's Kysely, not through the database packages, which translate
 * the errors of all other statements. So the codes that ask for another attempt are repeated here.
 */

/** PostgreSQL: serialization failure, deadlock, lock not available. */
const SQLSTATES: ReadonlySet<unknown> = new Set(['40001', '40P01', '55P03'])
/**
 * MySQL and MariaDB: deadlock; lock wait timeout; NOWAIT; row changed since the snapshot; refused by Group Replication.
 */
const NUMBERS: ReadonlySet<unknown> = new Set([1213, 1205, 3572, 1020, 3101])

/** Runs statements and turns an error that asks for another attempt into a `TransactionConflictError`. */
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
