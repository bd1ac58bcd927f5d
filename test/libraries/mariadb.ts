import { promisify } from 'node:util'
import { setupOf } from '../support/engines/mysql-pool.ts'
import type { Row } from '../support/engines/target.ts'
import type { LibraryModule, LibraryOptions, LibraryRoot } from './library-under-test.ts'
import { inSavepoint } from './savepoint.ts'

interface Connector {
  readonly createPool: (options: object) => Pool
}
/** The style of promises. In the style of callbacks each method takes one more argument, and returns nothing. */
interface Pool {
  getConnection(): Promise<Connection>
  end(): Promise<void>
}
interface Connection {
  query(sql: string, values?: readonly unknown[]): Promise<unknown>
  beginTransaction(): Promise<void>
  commit(): Promise<void>
  rollback(): Promise<void>
  release(): Promise<void>
}

/** The `mariadb` connector: promises on MariaDB, and callbacks on MySQL. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load, engine) => {
  const style = engine === 'mysql' ? 'callback' : 'promise'
  const { createPool } = (await load(style === 'callback' ? 'mariadb/callback' : 'mariadb')) as Connector

  /** A method of either style, with a promise. */
  function call<T>(on: object, method: string, ...values: readonly unknown[]): Promise<T> {
    const own = (...all: readonly unknown[]): unknown =>
      (Reflect.get(on, method) as (...all: readonly unknown[]) => unknown).apply(on, [...all])
    if (style === 'promise') return own(...values) as Promise<T>
    return promisify((done: (error: Error | null) => void) => void own(...values, done))() as Promise<T>
  }

  return {
    name: `mariadb with ${style}s`,
    driver: 'mysql2',
    rootFor: 'all',
    keptHandleJoins: true,
    open(options) {
      const pool = createPool(configOf(options))
      return {
        db: pool,
        async transact(work) {
          const connection = await call<Connection>(pool, 'getConnection')
          try {
            await call(connection, 'beginTransaction')
            const result = await work(connection)
            await call(connection, 'commit')
            return result
          } catch (error) {
            await call(connection, 'rollback').catch(() => undefined)
            throw error
          } finally {
            await call(connection, 'release')
          }
        },
        close: () => call(pool, 'end'),
      } satisfies LibraryRoot
    },
    async exec(tx, text, parameters) {
      const rows = await call(tx, 'query', text, [...parameters])
      return Array.isArray(rows) ? (rows as Row[]) : []
    },
    nested: (tx, work) =>
      inSavepoint(
        (sql) => call(tx, 'query', sql),
        () => work(tx),
      ),
    stray: {
      'a pool of mariadb': ({ db }) => db,
    },
    strayDuring: {
      async 'a connection of mariadb before BEGIN'({ db }, use) {
        const connection = await call<Connection>(db, 'getConnection')
        try {
          await use(connection)
        } finally {
          await call(connection, 'release')
        }
      },
    },
  }
}

function configOf(options: LibraryOptions): object {
  const { hostname, port, username, password, pathname } = new URL(options.url)
  return {
    host: hostname,
    port: Number(port === '' ? 3306 : port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: pathname.slice(1),
    connectionLimit: options.max,
    minimumIdle: 0,
    allowPublicKeyRetrieval: true,
    initSql: [...setupOf(options)],
    // Where no server listens, the pool tries again until this time limit, which is ten seconds by default.
    ...(port === '9' && { acquireTimeout: 300 }),
  }
}
