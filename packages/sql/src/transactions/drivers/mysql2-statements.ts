import type { Isolation } from '../adapters.ts'

/** Statements that open and end txbox's own transactions on MySQL and MariaDB. */
export const mysql2Statements = {
  /** SET TRANSACTION affects the next transaction only; the level of the connection does not change. */
  setReadCommitted: 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED',
  setRepeatableRead: 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ',
  setSerializable: 'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE',
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
