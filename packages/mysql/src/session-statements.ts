/* MySQL and MariaDB accept a savepoint outside a transaction, so that a session asks in other ways first. */
import { PROBE, savepointStatements } from '@txbox/sql'

/**
 * The answer of `mariadbState` on a server that is not MariaDB: MySQL takes the rest of the expression for a comment.
 */
export const NOT_MARIADB = '2'

/** Statements that find out whether a transaction is open. None of them writes anything. */
export const sessionStatements = {
  /** An empty statement: the answer's status says whether a transaction is open, where the library shows the status. */
  status: 'DO 0',
  /** 1 inside and 0 outside a transaction of MariaDB, where a savepoint may outlive a rollback by deadlock. */
  mariadbState: `select cast(${NOT_MARIADB} /*M! * 0 + @@in_transaction */ as char) as answer`,
  /** Tells whether a lock wait timeout rolls the whole transaction back. */
  rollsBackOnTimeout: 'select cast(@@innodb_rollback_on_timeout + 0 as char) as answer',
  /**
   * MySQL refuses this inside a transaction (1568). Outside one it gives the next transaction the level that this
   * transaction has anyway. Unlike a savepoint, it can be prepared.
   */
  refusedInTransaction: 'set @@transaction_isolation = @@session.transaction_isolation',
  setProbe: savepointStatements.set(PROBE),
  releaseProbe: savepointStatements.release(PROBE),
} as const
