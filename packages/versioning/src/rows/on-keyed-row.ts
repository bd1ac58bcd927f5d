import { TransactionConflictError } from '@txbox/core'
import { attemptsOnConflict } from '@txbox/core/internal'
import type { KeyedRow } from './keyed-row.ts'
import { translatingConflicts } from './transaction-conflict.ts'

/** The maximum number of attempts in a transaction that txbox opened, when the database asks for another attempt. */
const ATTEMPTS = 3

/**
 * Works on a row in the caller's transaction. With a root, opens a transaction, so that a wrong write can be rolled
 * back: only after the rows have been changed is it known whether `where` matches several of them.
 */
export function onKeyedRow<R>(row: KeyedRow, work: (row: KeyedRow) => Promise<R>): Promise<R> {
  if (row.db.isTransaction) return work(row)
  const transact = (): Promise<R> =>
    translatingConflicts(
      () => row.doing,
      () => row.db.transaction().execute((tx) => work(row.on(tx))),
    )
  return attemptsOnConflict(transact, { isConflict: isReportedByDatabase }, { attempts: ATTEMPTS })
}

/**
 * Selects conflicts that the database reports. A row that a trigger keeps unchanged is not such a conflict: it would
 * stay unchanged at each attempt.
 */
function isReportedByDatabase(error: unknown): boolean {
  return error instanceof TransactionConflictError && error.cause !== undefined
}
