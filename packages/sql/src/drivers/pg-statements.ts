import type { Isolation } from '../handle-adapter.ts'

/** Statements by which txbox opens, bounds and ends its own transactions on PostgreSQL. */
export const pgStatements = {
  begin: 'BEGIN',
  beginReadCommitted: 'BEGIN ISOLATION LEVEL READ COMMITTED',
  beginRepeatableRead: 'BEGIN ISOLATION LEVEL REPEATABLE READ',
  beginSerializable: 'BEGIN ISOLATION LEVEL SERIALIZABLE',
  /** `SET` takes no parameters. */
  limitStatements: (milliseconds: number) => `SET LOCAL statement_timeout = ${Math.ceil(milliseconds)}`,
  commit: 'COMMIT',
  rollback: 'ROLLBACK',
} as const

const BEGIN_AT: Readonly<Record<Isolation, string>> = {
  'read committed': pgStatements.beginReadCommitted,
  'repeatable read': pgStatements.beginRepeatableRead,
  serializable: pgStatements.beginSerializable,
}

/** The BEGIN for an isolation level; without a level, for the server's default. */
export function beginAt(isolation: Isolation | undefined): string {
  return isolation === undefined ? pgStatements.begin : BEGIN_AT[isolation]
}
