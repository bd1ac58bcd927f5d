/* Only PostgreSQL can wake those who wait for messages, with NOTIFY. */
import {
  listeningOn,
  type ListeningConnection,
  type ListeningEvents,
  type RootAdapter,
} from '@txbox/sql/transactions'

const CONNECT_TIMEOUT_MS = 5000

export type ConnectListening = (on: ListeningEvents) => Promise<ListeningConnection>

/**
 * Returns a function that opens a connection for LISTEN, either from `listen`, which is a connection string or a
 * function that returns a connected client, or from the root. Returns `undefined` if neither can open a connection.
 */
export function connectListening(
  root: RootAdapter,
  db: object,
  listen: string | (() => Promise<object>) | undefined,
): ConnectListening | undefined {
  if (typeof listen === 'function') return async (on) => listeningOn(await listen(), on)
  if (typeof listen === 'string') {
    return async (on) => {
      const { Client } = await importPg()
      const client = new Client({
        connectionString: listen,
        keepAlive: true,
        connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      })
      client.on('error', on.ended)
      await client.connect()
      return listeningOn(client, on)
    }
  }
  return root.connectListening === undefined
    ? undefined
    : (on) => root.connectListening!(db, CONNECT_TIMEOUT_MS, on)
}

interface PgModule {
  readonly Client: new (options: object) => {
    on(event: 'error', listener: (error: unknown) => void): unknown
    connect(): Promise<unknown>
  }
}

/** Imports `pg` only when it is needed, because it must be installed only if `listen` is a connection string. */
async function importPg(): Promise<PgModule> {
  const name = 'pg'
  const module = (await import(name)) as PgModule & { readonly default?: PgModule }
  return module.default ?? module
}
