/* Only MySQL and MariaDB need short transactions of several statements: PostgreSQL does the same in one statement. */
import type { OwnConnection, SqlResult } from '@txbox/sql'
import { fill, type Value } from './literals.ts'
import { shortTransactionStatements } from './short-transaction-statements.ts'

type Query = OwnConnection['query']

export type Run = (text: string, values: readonly Value[]) => Promise<SqlResult>

/**
 * A transaction of several statements at READ COMMITTED: a search locks what it finds, and not what it has looked at. If
 * this process stands still in the middle, or is cut off, the server soon ends the transaction, whose locks would keep
 * others waiting for as long. No statement waits longer than `lockWaitS` for a lock, on a row or on a table.
 */
export async function shortTransaction<R>(
  query: Query,
  lockWaitS: number,
  work: (run: Run) => Promise<R>,
): Promise<R> {
  const { limit, begin, commit, rollback, restore } = shortTransactionStatements
  await query(limit(lockWaitS), [])
  try {
    await readCommitted(query)
    await query(begin, [])
    const result = await work((text, values) => query(fill(text, values), []))
    await query(commit, [])
    return result
  } catch (error) {
    await query(rollback, [])
    throw error
  } finally {
    // Not before the transaction has ended: if the connection were cut in between, it would leave the transaction open for hours.
    await query(restore, [])
  }
}

/** For the next transaction only, which may be a single statement. */
export async function readCommitted(query: Query): Promise<void> {
  await query(shortTransactionStatements.readCommitted, [])
}
