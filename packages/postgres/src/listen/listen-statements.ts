/* Only PostgreSQL can wake those who wait for messages, with NOTIFY. */

export const listenStatements = {
  /** A channel name is an identifier, which cannot be passed as a parameter. */
  listen: (channel: string) => `listen "${channel}"`,
  /** The process id of the session that the server has for this connection. */
  processId: 'select pg_catalog.pg_backend_pid()::text as id',

  /**
   * Checks whether the connection is alive and still listens: a pooler in transaction mode has moved LISTEN to a connection of
   * its own. The column name shows the purpose of the connection in the server's list of statements.
   */
  alive: (channel: string) => `
select exists (
  select from pg_catalog.pg_listening_channels() as c (name) where c.name = '${channel}'
)::text as listening`,
} as const
