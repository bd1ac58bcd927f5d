/*
 * MySQL and MariaDB limit the wait for a row lock by a session setting, in whole seconds. MariaDB also accepts the
 * setting for a single statement. PostgreSQL has a setting of the transaction, in milliseconds.
 */

export const lockWaitStatements = {
  /** Reads the session's limit, in seconds, and the isolation level of its transactions. */
  read: 'select cast(@@innodb_lock_wait_timeout as char) as seconds, cast(@@transaction_isolation as char) as isolation',
  /** For MySQL: changes the session's limit. The smallest value is 1. */
  set: 'set session innodb_lock_wait_timeout = ?',
  /** For MariaDB: limits the wait of one statement. With 0, the statement does not wait at all. */
  within: (text: string, seconds: number) =>
    `set statement innodb_lock_wait_timeout = ${seconds} for ${text}`,
} as const
