/*
 * PostgreSQL refuses a savepoint outside of a transaction. MySQL and MariaDB accept one, so they need other ways to
 * find out whether a transaction is open.
 */
import { PROBE, savepointStatements } from '@txbox/sql/transactions'

/** Statements that show whether a transaction is open. They write nothing. */
export const sessionStatements = {
  setProbe: savepointStatements.set(PROBE),
  releaseProbe: savepointStatements.release(PROBE),
} as const
