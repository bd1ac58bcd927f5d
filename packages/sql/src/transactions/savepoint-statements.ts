/** Statements for txbox's savepoints, with the same text on every database. `name` needs no quotes. */
export const savepointStatements = {
  set: (name: string) => `SAVEPOINT ${name}`,
  release: (name: string) => `RELEASE SAVEPOINT ${name}`,
} as const

/**
 * The savepoint that tests whether a transaction is open. Outside of a transaction, PostgreSQL refuses a savepoint; on
 * MySQL and MariaDB, the savepoint disappears at once, so that its release fails.
 */
export const PROBE = 'txbox_probe'
