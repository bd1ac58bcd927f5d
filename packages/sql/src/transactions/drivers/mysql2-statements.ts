import type { Isolation } from '../root-adapter.ts'

/** Statements that open and end txbox's own transactions on MySQL and MariaDB. */
export const mysql2Statements = {
  /** SET TRANSACTION affects the next transaction only; the level of the connection does not change. */
  setReadCommitted: 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED',
  setRepeatableRead: 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ',
  setSerializable: 'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE',
  /**
   * Limits the time that the connection may be idle in the next transaction, and sets the level of that transaction, in one round
   * trip. MariaDB and MySQL have different names for the level.
   */
  limitIdleTime: (seconds: number, isolation: Isolation | undefined) =>
    `SET ${
      isolation === undefined
        ? ''
        : `/*!80000 @@transaction_isolation */ /*M! @@tx_isolation */ = '${isolation.toUpperCase().replace(' ', '-')}', `
    }@txbox_idle = @@session.wait_timeout, session wait_timeout = cast(least(@@session.wait_timeout, ${seconds}) as unsigned)`,
  /** Sent when the transaction has ended: otherwise the connection would be open for hours if it broke in between. */
  restoreIdleTime: 'SET session wait_timeout = @txbox_idle',
  begin: 'START TRANSACTION',
  commit: 'COMMIT',
  rollback: 'ROLLBACK',
  /** Any answer shows that the connection works. */
  check: 'SELECT 1',
} as const

export const SET_ISOLATION: Readonly<Record<Isolation, string>> = {
  'read committed': mysql2Statements.setReadCommitted,
  'repeatable read': mysql2Statements.setRepeatableRead,
  serializable: mysql2Statements.setSerializable,
}
