import type { Isolation } from '../handle-adapter.ts'

/** Statements by which txbox opens and ends its own transactions on MySQL and MariaDB. */
export const mysql2Statements = {
  /** SET TRANSACTION is for the next transaction only: the level of the connection stays what it was. */
  setReadCommitted: 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED',
  setRepeatableRead: 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ',
  setSerializable: 'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE',
  begin: 'START TRANSACTION',
  commit: 'COMMIT',
  rollback: 'ROLLBACK',
} as const

export const SET_ISOLATION: Readonly<Record<Isolation, string>> = {
  'read committed': mysql2Statements.setReadCommitted,
  'repeatable read': mysql2Statements.setRepeatableRead,
  serializable: mysql2Statements.setSerializable,
}
