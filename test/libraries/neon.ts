import { settingsOf } from '../support/engines/postgres-pool.ts'
import type { Row } from '../support/engines/target.ts'
import type { LibraryModule, LibraryRoot } from './library-under-test.ts'
import { inSavepoint } from './savepoint.ts'
import { SocketOverTcp } from './socket-over-tcp.ts'

interface NeonPool {
  on(event: 'error' | 'connect', listener: (client: Client) => void): void
  connect(): Promise<Client>
  end(): Promise<void>
}
interface Client {
  on(event: 'error', listener: () => void): void
  query(text: string, values: readonly unknown[]): Promise<{ rows: Row[] }>
  release(broken: boolean): void
}

/** The pool of Neon's driver, which speaks through a WebSocket, in whose place the tests connect to the server itself. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load) => {
  const { Pool, neonConfig } = (await load('@neondatabase/serverless')) as {
    readonly Pool: new (config: object) => NeonPool
    readonly neonConfig: object
  }
  Object.assign(neonConfig, {
    webSocketConstructor: SocketOverTcp,
    wsProxy: (host: string, port: number) => `${host}:${port}`,
    useSecureWebSocket: false,
    pipelineConnect: false,
    pipelineTLS: false,
  })
  return {
    name: "Neon's pool",
    driver: 'pg',
    rootFor: 'all',
    keptHandleJoins: true,
    joinsBegin: true,
    // Its clients are of a pg from before 8.21.
    extraRoundTrips: { perCall: 2, afterHandler: 1 },
    open(options) {
      const pool = new Pool({ connectionString: options.url, max: options.max, ...settingsOf(options) })
      pool.on('error', () => undefined)
      pool.on('connect', (client) => client.on('error', () => undefined))
      return {
        db: pool,
        async transact(work) {
          const client = await pool.connect()
          let broken = true
          try {
            await client.query('begin', [])
            try {
              const result = await work(client)
              await client.query('commit', [])
              broken = false
              return result
            } catch (error) {
              await client.query('rollback', []).then(
                () => (broken = false),
                () => undefined,
              )
              throw error
            }
          } finally {
            client.release(broken)
          }
        },
        close: () => pool.end(),
      } satisfies LibraryRoot
    },
    exec: async (tx, text, parameters) => (await (tx as Client).query(text, parameters)).rows,
    nested: (tx, work) =>
      inSavepoint(
        (sql) => (tx as Client).query(sql, []),
        () => work(tx),
      ),
    stray: { "Neon's pool": ({ db }) => db },
    strayDuring: {
      async "a client of Neon's pool before BEGIN"({ db }, use) {
        const client = await (db as NeonPool).connect()
        await use(client).finally(() => client.release(false))
      },
    },
  }
}
