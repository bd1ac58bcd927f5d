/* Only PostgreSQL can wake a relay, with NOTIFY. */

/** Statements on the listening connection. */
export const listenStatements = {
  /** A channel name is an identifier, which cannot be passed as a parameter. */
  listen: (channel: string) => `listen "${channel}"`,
  /**
   * Checks whether the connection is alive. The column name shows the purpose of the connection in the server's list of
   * statements.
   */
  alive: 'select 1 as listening',
} as const
