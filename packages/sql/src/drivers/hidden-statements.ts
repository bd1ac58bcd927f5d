import type { Isolation } from '../adapters.ts'
import { PROBE, savepointStatements } from '../savepoint-statements.ts'

/** What is sent with statements, and how transactions are opened, where a library hides its connection. */
export const hiddenStatements = {
  /**
   * In one message, in front of a statement: outside a transaction the savepoint fails (25P01), and the server does not
   * run what follows.
   */
  onlyInTransaction: (text: string) =>
    `${savepointStatements.set(PROBE)};${savepointStatements.release(PROBE)};${text}`,
  /** As the first statement of a transaction. */
  setLevel: (isolation: Isolation) => `set transaction isolation level ${isolation}`,
  /** postgres.js writes BEGIN in front of these. */
  readCommitted: 'isolation level read committed',
  repeatableRead: 'isolation level repeatable read',
  serializable: 'isolation level serializable',
  rollback: 'rollback',
  /** Finds the connection of a driver under Kysely. Harmless, since it is sent if that fails. */
  unsent: 'select 1',
} as const

export const LEVELS: Readonly<Record<Isolation, string>> = {
  'read committed': hiddenStatements.readCommitted,
  'repeatable read': hiddenStatements.repeatableRead,
  serializable: hiddenStatements.serializable,
}
