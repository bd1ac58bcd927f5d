import type { Isolation } from '../root-adapter.ts'
import { PROBE, savepointStatements } from '../savepoint-statements.ts'

/** Texts for libraries that hide their connection: they are sent with statements, or open transactions. */
export const hiddenStatements = {
  /**
   * Puts a savepoint in front of a statement, in one message. Outside of a transaction, the savepoint fails (25P01),
   * and the server does not run the statement.
   */
  onlyInTransaction: (text: string) =>
    `${savepointStatements.set(PROBE)};${savepointStatements.release(PROBE)};${text}`,
  /** Used as the first statement of a transaction. */
  setLevel: (isolation: Isolation) => `set transaction isolation level ${isolation}`,
  /** postgres.js writes BEGIN before these texts. */
  readCommitted: 'isolation level read committed',
  repeatableRead: 'isolation level repeatable read',
  serializable: 'isolation level serializable',
  rollback: 'rollback',
  /** Used to find the connection of a driver under Kysely. Normally it is not sent; if it is, it has no effect. */
  unsent: 'select 1',
  /** Any answer shows that the connection works. */
  check: 'select 1',
} as const

export const LEVELS: Readonly<Record<Isolation, string>> = {
  'read committed': hiddenStatements.readCommitted,
  'repeatable read': hiddenStatements.repeatableRead,
  serializable: hiddenStatements.serializable,
}
