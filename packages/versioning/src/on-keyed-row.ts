import { TransactionConflictError } from '@txbox/core'
import type { KeyedRow } from './keyed-row.ts'
import { attemptsOnConflict } from './retry-on-conflict.ts'
import { translatingConflicts } from './transaction-conflict.ts'

/** How often work in a transaction of txbox's own is tried when the database asks for another attempt. */
const ATTEMPTS = 3

/**
 * Works on a row in the caller's transaction. With a root, opens a transaction, so that a wrong write is rolled
 * back: a `where` that matches several rows shows only after the rows have been changed.
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

/** Only conflicts that the database reports: a row that a trigger keeps unchanged would stay unchanged at each attempt. */
function isAskedFor(error: unknown): boolean {
  return error instanceof TransactionConflictError && error.cause !== undefined
}
