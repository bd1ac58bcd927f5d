/* Only MySQL and MariaDB need short transactions of several statements: PostgreSQL does the same in one statement. */
import type { OwnConnection, StatementRoot, SqlResult } from '@txbox/sql/transactions'
import { fill, type Value } from './literals.ts'
import { shortTransactionStatements } from './short-transaction-statements.ts'
import { serverTimeoutS } from './time-limit-statements.ts'

export type Run = (text: string, values: readonly Value[]) => Promise<SqlResult>

/**
 * Runs several statements in a transaction at READ COMMITTED, at which a search keeps locks only on the rows that it
 * returns. If this process is paused or cut off within the transaction, others wait for its locks only until the server
 * ends it, which is soon. No statement waits longer than the timeout for a lock on a row or a table.
 */
export async function shortTransaction<R>(
  query: OwnConnection['query'],
  { statementTimeoutMs }: Pick<StatementRoot, 'statementTimeoutMs'>,
  work: (run: Run) => Promise<R>,
): Promise<R> {
  const { limit, readCommitted, begin, commit, rollback, restore } = shortTransactionStatements
  await query(limit(serverTimeoutS(statementTimeoutMs)), [])
  try {
    await query(readCommitted, [])
    await query(begin, [])
    const result = await work((text, values) => query(fill(text, values), []))
    await query(commit, [])
    return result
  } catch (error) {
    await query(rollback, [])
    throw error
  } finally {
    // The settings are restored only after the transaction has ended: if the connection broke in between, the
    // transaction would stay open for hours.
    await query(restore, [])
  }
}
