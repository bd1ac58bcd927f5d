/*
 * MySQL and MariaDB accept a savepoint outside of a transaction, so a session first uses other ways to find out whether
 * a transaction is open.
 */
import { PROBE, savepointStatements } from '@txbox/sql/transactions'

/**
 * The answer of `mariadbState` on a server that is not MariaDB: MySQL treats the rest of the expression as a comment.
 */
export const NOT_MARIADB = '2'

/** The settings of a session that `refuseSettings` reads, as columns of a SELECT. */
export const SETTINGS = `cast(@@character_set_client as char) as client, cast(@@character_set_connection as char) as connection,
  cast(@@completion_type as char) as completion`

/** Statements that show whether a transaction is open, and the settings of a session. They write nothing. */
export const sessionStatements = {
  /**
   * A statement without an effect. If the library exposes the status of the answer, the status shows whether a
   * transaction is open.
   */
  status: 'DO 0',
  /**
   * On MariaDB, 1 inside and 0 outside of a transaction. A savepoint would not be reliable there: it may outlive the
   * rollback after a deadlock.
   */
  mariadbState: `select cast(${NOT_MARIADB} /*M! * 0 + @@in_transaction */ as char) as answer`,
  /** Whether a lock wait timeout rolls back the whole transaction. */
  rollsBackOnTimeout: 'select cast(@@innodb_rollback_on_timeout + 0 as char) as answer',
  /**
   * MySQL refuses this statement inside a transaction (1568). Outside of one, it sets the level of the next transaction
   * to the level that this transaction has anyway. Unlike a savepoint, the statement can be prepared.
   */
  refusedInTransaction: 'set @@transaction_isolation = @@session.transaction_isolation',
  settings: `select ${SETTINGS}`,
  setProbe: savepointStatements.set(PROBE),
  releaseProbe: savepointStatements.release(PROBE),
} as const
