/* On MySQL and MariaDB autocommit may be off for a whole pool; PostgreSQL has no such setting. */
import { propertyOf, unanswered, within } from '@txbox/core/internal'
import { isStale, tooLate, withinPool, type OwnConnection, type RootAdapter } from '@txbox/sql/transactions'
import type { ServerTraits } from './server.ts'
import { shortTransactionStatements } from './short-transaction-statements.ts'

export interface Connections {
  readonly root: RootAdapter
  readonly db: unknown
  readonly server: () => Promise<ServerTraits>
}

/**
 * Opens a connection on which each statement outside of a transaction commits, so that the locks of a statement end
 * with it, even if the connection breaks. If autocommit is off, it is switched on before the first statement. It is
 * switched off again, within `timeoutMs`, before the connection is released.
 */
export async function committingConnection(
  { root, db, server }: Connections,
  timeoutMs: number,
): Promise<OwnConnection> {
  const { autocommit } = await server()
  const connection = await root.connect(db)
  if (autocommit) return connection
  const { query, release } = connection
  let switched = false
  return {
    async query(text, values) {
      if (!switched) await query(shortTransactionStatements.switchAutocommitOn, [])
      switched = true
      return query(text, values)
    },
    release(broken) {
      if (broken || !switched) return release(broken)
      void within(query(shortTransactionStatements.switchAutocommitOff, []), timeoutMs, unanswered).then(
        () => release(false),
        () => release(true),
      )
    },
  }
}

/**
 * Runs work on a connection of its own. A connection that does not answer in time is discarded: otherwise the pool
 * would be short of it until the broken connection is detected.
 */
export async function onConnection<R>(
  connections: Connections,
  timeoutMs: number,
  work: (query: OwnConnection['query']) => Promise<R>,
): Promise<R> {
  let own: OwnConnection | undefined
  let over = false
  const open = async (): Promise<R> => {
    const connection = await committingConnection(connections, timeoutMs)
    if (!over) return work((own = connection).query)
    // The connection was opened too late for this call, but can be used by others.
    connection.release(false)
    throw tooLate()
  }
  let broken = true
  try {
    const result = await withinPool(open, timeoutMs)
    broken = false
    return result
  } catch (error) {
    broken = typeof propertyOf(error, 'sqlState') !== 'string' || isStale(error)
    throw error
  } finally {
    over = true
    own?.release(broken)
  }
}
