import { setTimeout } from 'node:timers/promises'
import { setupOf } from '../support/engines/mysql-pool.ts'
import { settingsOf } from '../support/engines/postgres-pool.ts'
import type { Row } from '../support/engines/target.ts'
import type { LibraryModule, LibraryOptions, LibraryRoot } from './library-under-test.ts'

interface EntityManager {
  transactional<T>(work: (em: EntityManager) => Promise<T>): Promise<T>
  execute(sql: string, parameters: readonly unknown[], method: 'all'): Promise<unknown>
  fork(): EntityManager
}
interface Orm {
  readonly em: EntityManager
  connect(): Promise<unknown>
  close(): Promise<void>
}
interface Module {
  readonly MikroORM: { new (options: object): Orm; initSync?(options: object): Orm }
}
/** A connection of the driver under MikroORM 6. */
interface Raw {
  query(sql: string, done: (error: Error | null) => void): void
}
/** A connection of Kysely under MikroORM 7. */
interface Held {
  executeQuery(query: { sql: string; parameters: readonly unknown[] }): Promise<unknown>
}

const PACKAGES = { postgres: 'postgresql', mysql: 'mysql', mariadb: 'mariadb' } as const

/** MikroORM on pg and mysql2; MikroORM 6 has the connector `mariadb` on MariaDB. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load, engine, version) => {
  const closesLate = version === 'newest' && engine === 'postgres'
  const { MikroORM } = (await load(`@mikro-orm/${PACKAGES[engine]}`)) as Module
  return {
    name: `MikroORM ${version === 'oldest' ? 6 : 7} on ${engine}`,
    driver: engine === 'postgres' ? 'pg' : 'mysql2',
    rootFor: 'all',
    // MikroORM 6 is on Knex, and on a pg from before 8.21. MikroORM 7.2.1 is on Kysely 0.29.6, whose controlled
    // transactions keep a connection when BEGIN or ROLLBACK fails, and the pool of pg waits for it.
    losesConnectionAtBegin: version === 'newest',
    losesBrokenConnection: closesLate,
    losesConnectionAtCommit: version === 'oldest',
    ...(version === 'oldest' &&
      engine === 'postgres' && { extraRoundTrips: { perCall: 2, afterHandler: 1 } }),
    open(options) {
      const config = configOf(options, version)
      const orm = version === 'oldest' ? MikroORM.initSync!(config) : new MikroORM(config)
      let connected: Promise<unknown> | undefined
      return {
        db: orm.em,
        ready: async () => void (await (connected ??= orm.connect())),
        transact: (work) => orm.em.fork().transactional((em) => work(em)),
        close: () => (closesLate ? Promise.race([orm.close(), setTimeout(100)]) : orm.close()),
      } satisfies LibraryRoot
    },
    async exec(tx, text, parameters) {
      // MikroORM counts `?`, also on PostgreSQL.
      const answer = await (tx as EntityManager).execute(text.replaceAll(/\$\d+/g, '?'), parameters, 'all')
      return Array.isArray(answer) ? (answer as Row[]) : []
    },
    nested: (tx, work) => (tx as EntityManager).transactional(work),
    stray: {
      'the em of an ORM': ({ db }) => db,
      'a fork of the em of an ORM': ({ db }) => (db as EntityManager).fork(),
    },
  }
}

function configOf(options: LibraryOptions, version: 'newest' | 'oldest'): object {
  const { engine, url, max } = options
  const { hostname, port, username, password, pathname } = new URL(url)
  const setup = engine === 'postgres' ? [] : setupOf(options)
  const settings = engine === 'postgres' ? settingsOf(options) : {}
  const common = {
    entities: [],
    discovery: { warnWhenNoEntities: false },
    host: hostname,
    ...(port !== '' && { port: Number(port) }),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    dbName: pathname.slice(1),
  }
  if (version === 'newest') {
    return {
      ...common,
      pool: { max },
      driverOptions: settings,
      async onCreateConnection(connection: Held) {
        for (const sql of setup) await connection.executeQuery({ sql, parameters: [] })
      },
    }
  }
  return {
    ...common,
    driverOptions: { connection: settings },
    pool: {
      min: 0,
      max,
      afterCreate(connection: Raw, done: (error: Error | null, connection: Raw) => void) {
        const next = (index: number): void => {
          const statement = setup[index]
          if (statement === undefined) return done(null, connection)
          connection.query(statement, (error) => (error ? done(error, connection) : next(index + 1)))
        }
        next(0)
      },
    },
  }
}
