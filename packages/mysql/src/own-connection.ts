import { answerWithin } from '@txbox/core'
import type { OwnConnection, RootAdapter } from '@txbox/sql'
import type { ServerTraits } from './server.ts'

/** Where connections come from, and whether they commit by themselves. */
export interface Connections {
  readonly root: RootAdapter
  readonly db: unknown
  readonly server: () => Promise<ServerTraits>
}

/**
 * A connection on which each statement that is in no transaction commits: its locks end with it, whatever becomes of the
 * connection. Where autocommit is off it is switched on with the first statement, and off again before it is given back,
 * within `timeoutMs`.
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
      if (!switched) await query('set session autocommit = 1', [])
      switched = true
      return query(text, values)
    },
    release(broken) {
      if (broken || !switched) return release(broken)
      void answerWithin(timeoutMs, query('set session autocommit = 0', [])).then(
        () => release(false),
        () => release(true),
      )
    },
  }
}

/**
 * Work on a connection of its own. One without an answer in time is thrown away: it would be missing in the pool for as
 * long as nobody notices that its other end is gone.
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
    // It came too late, and is as good as ever.
    connection.release(false)
    throw new Error('Nobody waits for this connection any more.')
  }
  let broken = true
  try {
    const result = await answerWithin(timeoutMs, open())
    broken = false
    return result
  } catch (error) {
    broken = typeof Reflect.get(Object(error), 'sqlState') !== 'string'
    throw error
  } finally {
    over = true
    own?.release(broken)
  }
}
