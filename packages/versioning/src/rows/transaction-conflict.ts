import { TransactionConflictError, isTxboxError } from '@txbox/core'
import { isMysqlConflict, isPostgresConflict } from '@txbox/core/internal'

/**
 * Runs statements on the user's own tables, which are not sent by a database package. An error by which the database
 * asks for another attempt becomes a `TransactionConflictError`.
 */
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
    error instanceof Error && !isTxboxError(error) && (isPostgresConflict(error) || isMysqlConflict(error))
  )
}
