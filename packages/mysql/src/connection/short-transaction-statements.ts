/* Only MySQL and MariaDB need short transactions of several statements: PostgreSQL does the same in one statement. */

/**
 * How long a transaction may be open without a statement, in seconds. After that, the server ends the transaction and
 * releases its locks.
 */
const IDLE_S = 2

/** Statements around a short transaction, or around a single statement that is a transaction of its own. */
export const shortTransactionStatements = {
  /**
   * Saves the settings, and limits all waits of the connection. On MariaDB, safe updates would refuse a join with
   * JSON_TABLE, which has no keys.
   */
  limit: (lockWaitS: number) => `
set @txbox_wait = @@session.wait_timeout, session wait_timeout = ${IDLE_S},
  @txbox_lock_wait = @@session.innodb_lock_wait_timeout, session innodb_lock_wait_timeout = ${lockWaitS},
  @txbox_table_wait = @@session.lock_wait_timeout, session lock_wait_timeout = ${lockWaitS},
  @txbox_safe_updates = @@session.sql_safe_updates, session sql_safe_updates = 0`,

  restore: `
set session wait_timeout = @txbox_wait, session innodb_lock_wait_timeout = @txbox_lock_wait,
  session lock_wait_timeout = @txbox_table_wait, session sql_safe_updates = @txbox_safe_updates`,

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
