import type { Isolation } from '../root-adapter.ts'

export const pgStatements = {
  begin: 'BEGIN',
  beginReadCommitted: 'BEGIN ISOLATION LEVEL READ COMMITTED',
  beginRepeatableRead: 'BEGIN ISOLATION LEVEL REPEATABLE READ',
  beginSerializable: 'BEGIN ISOLATION LEVEL SERIALIZABLE',
  /** `SET` takes no parameters. */
  limitStatements: (milliseconds: number) => `SET LOCAL statement_timeout = ${Math.ceil(milliseconds)}`,
  limitIdleTime: (milliseconds: number) =>
    `SET LOCAL idle_in_transaction_session_timeout = ${Math.ceil(milliseconds)}`,
  commit: 'COMMIT',
  rollback: 'ROLLBACK',
  /** Any answer shows that the connection works. */
  check: 'SELECT 1',
} as const

/** The tags by which the server names what it has executed. */
export const COMMAND_TAGS = {
  commit: 'COMMIT',
  prepare: 'PREPARE TRANSACTION',
  savepoint: 'SAVEPOINT',
  rollback: 'ROLLBACK',
} as const

const BEGIN_AT: Readonly<Record<Isolation, string>> = {
  'read committed': pgStatements.beginReadCommitted,
  'repeatable read': pgStatements.beginRepeatableRead,
  serializable: pgStatements.beginSerializable,
}

/** Returns the statements that begin a transaction. */
export function beginAt(
  isolation: Isolation | undefined,
  idleLimitMs?: number,
): readonly [string, ...string[]] {
  const begin = isolation === undefined ? pgStatements.begin : BEGIN_AT[isolation]
  return idleLimitMs === undefined ? [begin] : [begin, pgStatements.limitIdleTime(idleLimitMs)]
}
