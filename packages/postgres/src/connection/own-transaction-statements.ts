/*
 * Only PostgreSQL limits the time of a single statement by a transaction around it; MySQL and MariaDB have hints for
 * that.
 */

/**
 * Statements of a transaction around one statement, for a library that sends one statement after the other. If this
 * process is paused between two of these statements, the server soon ends the transaction and releases its locks.
 */
export const ownTransactionStatements = {
  begin: 'begin isolation level read committed',
  /** `SET` takes no parameters. */
  limitStatement: (milliseconds: number) => `set local statement_timeout = ${milliseconds}`,
  limitIdleTime: 'set local idle_in_transaction_session_timeout = 2000',
  commit: 'commit',
  rollback: 'rollback',
} as const

/** Joins the statements that open the transaction into one text. */
export function together(statements: readonly string[]): string {
  return statements.join('; ')
}
