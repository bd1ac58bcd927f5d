/** A statement with the same text on every database, which any connection to a server can answer. */
export const connectionStatements = {
  check: 'SELECT 1',
} as const
