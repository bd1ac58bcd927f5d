/*
 * MySQL and MariaDB limit the time of a statement with a hint, and run short transactions of several statements;
 * connections may not commit by themselves. PostgreSQL runs a statement in a transaction of its own, and copies rows in
 * binary.
 */
import { DatabaseUnavailableError } from '@txbox/core'
import { unanswered, within } from '@txbox/core/internal'
import { repeatOnConflict, type StatementRoot as SqlSource, type SqlResult } from '@txbox/sql/transactions'
import { columns } from './columns.ts'
import { errors } from './errors.ts'
import { fill, type Value } from './literals.ts'
import { onConnection, type Connections } from './own-connection.ts'
import { shortTransactionStatements } from './short-transaction-statements.ts'
import { shortTransaction, type Run } from './short-transaction.ts'
import { withMark, withoutRowLimit, withTimeLimit } from './time-limit-statements.ts'

/** The timeout of the statements that find and kill a late statement. */
const KILL_TIMEOUT_MS = 1000

export interface MysqlStatementRoot extends SqlSource, Connections {}

/** The statement is its own transaction, and must be safe to repeat. */
export async function runAlone(
  source: MysqlStatementRoot,
  doing: string,
  text: string,
  values: readonly Value[],
): Promise<SqlResult> {
  const { engine } = await source.server()
  return runStatement(source, doing, withoutRowLimit(fill(text, values), engine))
}

async function runStatement(
  source: MysqlStatementRoot,
  doing: string,
  statement: string,
): Promise<SqlResult> {
  const { root, db, statementTimeoutMs } = source
  return repeatOnConflict(errors, doing, async () => {
    const { autocommit } = await source.server()
    // If autocommit is off, a read without a transaction around it would keep its snapshot forever.
    return autocommit
      ? within(root.query(db, statement, [], statementTimeoutMs), statementTimeoutMs, unanswered)
      : onConnection(source, statementTimeoutMs, (query) => query(statement, []))
  })
}

/**
 * Like `runAlone`, but with a time after which the server cancels the statement. Otherwise each statement of a relay
 * that waits for a lock would leave a connection behind.
 */
export async function runBounded(
  source: MysqlStatementRoot,
  doing: string,
  text: string,
  values: readonly Value[],
): Promise<SqlResult> {
  const { engine } = await source.server()
  const limited = withTimeLimit(fill(text, values), engine, source.statementTimeoutMs)
  // Another connection may run an equal statement, which must not be killed.
  const statement = engine === 'mysql' ? withMark(limited) : limited
  try {
    return await runStatement(source, doing, statement)
  } catch (error) {
    // The statement may still be waiting for a row lock: MySQL can limit that wait only for a whole session.
    if (engine === 'mysql' && error instanceof DatabaseUnavailableError) await killLate(source, statement)
    throw error
  }
}

/** Kills the connection of an abandoned statement. If that fails, the statement ends by itself later. */
async function killLate({ root, db }: MysqlStatementRoot, statement: string): Promise<void> {
  const { processes, kill } = shortTransactionStatements
  const run = (text: string): Promise<SqlResult> =>
    within(root.query(db, text, [], KILL_TIMEOUT_MS), KILL_TIMEOUT_MS, unanswered)
  try {
    const { rows } = await run(processes)
    const late = rows.filter((row) => columns.optionalText(row, 'Info') === statement)
    for (const row of late) await run(kill(columns.number(row, 'Id')))
  } catch {
    // The caller reports the error of the statement itself.
  }
}

/** The statements are one short transaction, which must be safe to repeat. */
export async function runTogether<R>(
  source: MysqlStatementRoot,
  doing: string,
  work: (run: Run) => Promise<R>,
): Promise<R> {
  return repeatOnConflict(errors, doing, () =>
    onConnection(source, source.statementTimeoutMs, (query) => shortTransaction(query, source, work)),
  )
}
