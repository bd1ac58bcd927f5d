/*
 * MySQL and MariaDB bound the wait for a row lock by a setting of the session, in whole seconds, which MariaDB also
 * accepts for one statement. PostgreSQL has a setting of the transaction, in milliseconds.
 */

export const lockWaitStatements = {
  /** The bound of the session, in seconds, and the isolation level of its transactions. */
  read: 'select cast(@@innodb_lock_wait_timeout as char) as seconds, cast(@@transaction_isolation as char) as isolation',
  /** MySQL: changes the bound of the session. The smallest value is 1. */
  set: 'set session innodb_lock_wait_timeout = ?',
  /** MariaDB: bounds one statement. 0 does not wait at all. */
  within: (text: string, seconds: number) =>
    `set statement innodb_lock_wait_timeout = ${seconds} for ${text}`,
} as const
