/** Statements for txbox's savepoints, with the same text on every database. `name` needs no quotes. */
export const savepointStatements = {
  set: (name: string) => `SAVEPOINT ${name}`,
  release: (name: string) => `RELEASE SAVEPOINT ${name}`,
} as const

/**
 * The savepoint that tests whether a transaction is open. PostgreSQL refuses a savepoint outside a transaction; on
 * MySQL and MariaDB such a savepoint disappears at once, so that its release fails.
 */
export const PROBE = 'txbox_probe'
