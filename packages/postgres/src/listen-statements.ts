/* Only PostgreSQL can wake a relay: by NOTIFY. */

/** Statements on the connection that listens. */
export const listenStatements = {
  /** The name of a channel is an identifier, which no parameter can hold. */
  listen: (channel: string) => `listen "${channel}"`,
  /** Asks whether the connection is alive. Its name shows what the connection is for, where the server lists statements. */
  alive: 'select 1 as listening',
} as const
