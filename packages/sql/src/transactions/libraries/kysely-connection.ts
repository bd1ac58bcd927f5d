import { propertyOf } from '@txbox/core/internal'
import { hiddenStatements } from '../drivers/hidden-statements.ts'
import { hasFunction } from '../members.ts'

export interface KyselyTransaction {
  getExecutor(): { provideConnection<T>(consumer: (connection: KyselyConnection) => Promise<T>): Promise<T> }
}
interface KyselyConnection {
  executeQuery(query: {
    readonly sql: string
    readonly parameters: readonly unknown[]
    readonly query: object
    readonly queryId: object
  }): Promise<unknown>
}
type Done = (error: null, result: readonly unknown[]) => void

/** The driver's connection for each connection of Kysely. The two belong together as long as they exist. */
const found = new WeakMap<KyselyConnection, object>()

/**
 * Returns the connection of `pg` or `mysql2` under a transaction of Kysely, which keeps the connection in a private
 * field. Returns `undefined` if the connection does not belong to this pool, or the pool does not list its connections.
 * Sends nothing.
 *
 * @param poolOf returns the pool of the driver, whose list of connections is undocumented. Only called for a connection of
 *   Kysely that is not known yet.
 */
export async function driverConnectionOf(
  transaction: KyselyTransaction,
  poolOf: () => Promise<object | undefined>,
): Promise<object | undefined> {
  return transaction.getExecutor().provideConnection(async (held) => {
    const known = found.get(held)
    if (known !== undefined) return known
    const connection = whichAnswers(held, connectionsOf(await poolOf()))
    if (connection !== undefined) found.set(held, connection)
    return connection
  })
}

/**
 * Finds the connection that Kysely holds. For the time of one call, the method `query` of every connection in the pool
 * is replaced by one that records its call and answers by itself; Kysely then calls the method of its connection.
 * Nothing else runs before the methods are restored, because all of this is synchronous.
 */
function whichAnswers(held: KyselyConnection, connections: readonly object[]): object | undefined {
  let called: object | undefined
  const restore = connections.map((connection) => {
    const own = Object.getOwnPropertyDescriptor(connection, 'query')
    const query = (_sql: unknown, _values: unknown, done?: Done): Promise<object> => {
      called = connection
      if (typeof done === 'function') queueMicrotask(() => done(null, []))
      return Promise.resolve({ rows: [] })
    }
    Object.defineProperty(connection, 'query', { value: query, configurable: true, writable: true })
    return () => {
      if (own === undefined) Reflect.deleteProperty(connection, 'query')
      else Object.defineProperty(connection, 'query', own)
    }
  })
  try {
    const sql = hiddenStatements.unsent
    const answer = held.executeQuery({ sql, parameters: [], query: { kind: 'RawNode' }, queryId: OWN })
    // If the connection is not in the pool, the statement is really sent, and its result does not matter.
    answer.catch(() => undefined)
  } finally {
    for (const undo of restore) undo()
  }
  return called
}

const OWN = { queryId: 'txbox' }

function connectionsOf(pool: object | undefined): readonly object[] {
  const ofPg = propertyOf(pool, '_clients')
  if (Array.isArray(ofPg)) return ofPg.filter((each) => hasFunction(each, 'query')) as object[]
  const ofMysql2 = propertyOf(pool, '_allConnections')
  const length = propertyOf(ofMysql2, 'length')
  if (typeof length !== 'number' || !hasFunction(ofMysql2, 'get')) return []
  const queue = ofMysql2 as { get(index: number): unknown }
  const all = Array.from({ length }, (_, index) => queue.get(index))
  return all.filter((each) => hasFunction(each, 'query')) as object[]
}
