import { TransactionConflictError } from '@txbox/core'
import type { KeyedRow } from './keyed-row.ts'
import { attemptsOnConflict } from './retry-on-conflict.ts'
import { translatingConflicts } from './transaction-conflict.ts'

/** How often work in a transaction of our own is tried, when the database asks for another attempt. */
const ATTEMPTS = 3

/**
 * Works on a row in the caller's transaction. With a root it opens one, so that a write that turns out to be wrong is
 * rolled back: a `where` that matches several rows shows only when they have been changed.
 */
export function onKeyedRow<R>(row: KeyedRow, work: (row: KeyedRow) => Promise<R>): Promise<R> {
  if (row.db.isTransaction) return work(row)
  const transact = (): Promise<R> =>
    translatingConflicts(
      () => row.doing,
      () => row.db.transaction().execute((tx) => work(row.on(tx))),
    )
  return attemptsOnConflict(transact, { attempts: ATTEMPTS, isConflict: isAskedFor })
}

/** By the database: a row that a trigger keeps as it is would be so at each attempt. */
function isAskedFor(error: unknown): boolean {
  return error instanceof TransactionConflictError && error.cause !== undefined
}
