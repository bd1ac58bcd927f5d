import { NotInTransactionError } from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'

/** Matches the errors by which PGlite and pg-promise refuse a transaction that has ended. */
const ENDED = /^(Transaction is closed|Querying against a released or lost connection)/

/**
 * Returns a NotInTransactionError if the error of a statement shows that no transaction is open, and otherwise the
 * error itself. 25P01 means a savepoint outside of a transaction.
 */
export function outsideTransaction(error: unknown, name: string): unknown {
  const isOutside =
    propertyOf(error, 'code') === '25P01' || (error instanceof Error && ENDED.test(error.message))
  if (!isOutside) return error
  return new NotInTransactionError(
    `Expected an open transaction, but this ${name} handle has none. Await everything that uses the transaction before ` +
      'it ends. Nothing was written.',
    { cause: error },
  )
}
