/* Only MySQL and MariaDB need short transactions of several statements: PostgreSQL does the same in one statement. */

/** How long a transaction may be open without a statement, in seconds: then the server ends it, and its locks. */
const IDLE_S = 2

/** Statements around a short transaction, or around a single statement that is one. */
export const shortTransactionStatements = {
  /**
   * Bounds all waits of the connection, and keeps the settings as they were. On MariaDB safe updates would refuse a join with
   * JSON_TABLE, which has no keys.
   */
  limit: (lockWaitS: number) => `
set @txbox_wait = @@session.wait_timeout, session wait_timeout = ${IDLE_S},
  @txbox_lock_wait = @@session.innodb_lock_wait_timeout, session innodb_lock_wait_timeout = ${lockWaitS},
  @txbox_table_wait = @@session.lock_wait_timeout, session lock_wait_timeout = ${lockWaitS},
  @txbox_safe_updates = @@session.sql_safe_updates, session sql_safe_updates = 0`,

  /** Restores the settings. */
  restore: `
set session wait_timeout = @txbox_wait, session innodb_lock_wait_timeout = @txbox_lock_wait,
  session lock_wait_timeout = @txbox_table_wait, session sql_safe_updates = @txbox_safe_updates`,

  /** For the next transaction only, which may be a single statement. */
  readCommitted: 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED',
  begin: 'START TRANSACTION',
  commit: 'COMMIT',
  rollback: 'ROLLBACK',

  /** For a pool whose connections do not commit by themselves. */
  switchAutocommitOn: 'set session autocommit = 1',
  switchAutocommitOff: 'set session autocommit = 0',

  /** The statements that run now, and the one that ends the connection of a late one. */
  processes: 'show full processlist',
  kill: (connection: number) => `kill ${connection}`,
} as const
