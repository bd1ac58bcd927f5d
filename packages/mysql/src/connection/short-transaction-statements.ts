/* Only MySQL and MariaDB need short transactions of several statements: PostgreSQL does the same in one statement. */

/**
 * How long a transaction may be open without a statement, in seconds. After that, the server ends the transaction and
 * releases its locks.
 */
const IDLE_S = 2

const NO_ROW_LIMIT = `@txbox_select_limit = @@session.sql_select_limit, session sql_select_limit = 18446744073709551615,
  @txbox_big_selects = @@session.sql_big_selects, session sql_big_selects = 1`
const ROW_LIMIT_AS_BEFORE = `session sql_select_limit = @txbox_select_limit, session sql_big_selects = @txbox_big_selects`

/** Statements around a short transaction, or around a single statement that is a transaction of its own. */
export const shortTransactionStatements = {
  /**
   * Saves the settings, and limits all waits of the connection. On MariaDB, safe updates would refuse a join with
   * JSON_TABLE, which has no keys. Limits of the session on the rows of a SELECT or a join have no effect.
   */
  limit: (lockWaitS: number) => `
set @txbox_wait = @@session.wait_timeout, session wait_timeout = ${IDLE_S},
  @txbox_lock_wait = @@session.innodb_lock_wait_timeout, session innodb_lock_wait_timeout = ${lockWaitS},
  @txbox_table_wait = @@session.lock_wait_timeout, session lock_wait_timeout = ${lockWaitS},
  @txbox_safe_updates = @@session.sql_safe_updates, session sql_safe_updates = 0,
  ${NO_ROW_LIMIT}`,

  restore: `
set session wait_timeout = @txbox_wait, session innodb_lock_wait_timeout = @txbox_lock_wait,
  session lock_wait_timeout = @txbox_table_wait, session sql_safe_updates = @txbox_safe_updates,
  ${ROW_LIMIT_AS_BEFORE}`,

  /** For the connection on which `migrate` runs. */
  liftRowLimit: `set ${NO_ROW_LIMIT}`,
  restoreRowLimit: `set ${ROW_LIMIT_AS_BEFORE}`,

  /** Sets the isolation level of the next transaction only. That may be a single statement. */
  readCommitted: 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED',
  begin: 'START TRANSACTION',
  commit: 'COMMIT',
  rollback: 'ROLLBACK',

  /** Used with a pool whose connections do not commit by themselves. */
  switchAutocommitOn: 'set session autocommit = 1',
  switchAutocommitOff: 'set session autocommit = 0',

  /** The first statement lists all running statements; the second ends the connection of a late one. */
  processes: 'show full processlist',
  kill: (connection: number) => `kill ${connection}`,
} as const
