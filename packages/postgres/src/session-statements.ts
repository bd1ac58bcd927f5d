/* PostgreSQL refuses a savepoint outside a transaction. MySQL and MariaDB accept one, and have more ways to ask. */
import { PROBE, savepointStatements } from '@txbox/sql'

/** Statements that find out whether a transaction is open. Neither writes anything. */
export const sessionStatements = {
  setProbe: savepointStatements.set(PROBE),
  releaseProbe: savepointStatements.release(PROBE),
} as const
