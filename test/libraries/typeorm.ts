import { setupOf } from '../support/engines/mysql-pool.ts'
import { settingsOf } from '../support/engines/postgres-pool.ts'
import type { Row } from '../support/engines/target.ts'
import type { LibraryModule, LibraryOptions, LibraryRoot } from './library-under-test.ts'

interface EntityManager {
  query(sql: string, parameters: readonly unknown[]): Promise<unknown>
  transaction(work: (em: EntityManager) => Promise<void>): Promise<void>
}
interface DataSource {
  readonly manager: object
  readonly driver: {
    readonly pool?: {
      on(event: 'connection', listener: (connection: { query(sql: string): void }) => void): void
    }
  }
  initialize(): Promise<unknown>
  query(sql: string): Promise<unknown>
  destroy(): Promise<void>
  createQueryRunner(): object
  transaction<T>(work: (em: object) => Promise<T>): Promise<T>
}
interface Module {
  readonly DataSource: new (options: object) => DataSource
}

/** TypeORM on pg, and on mysql2. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load, engine) => {
  const { DataSource } = (await load('typeorm')) as Module
  const isPostgres = engine === 'postgres'
  return {
    name: `TypeORM on ${isPostgres ? 'pg' : 'mysql2'}`,
    driver: isPostgres ? 'pg' : 'mysql2',
    losesConnectionAtCommit: true,
    rootFor: 'all',
    hidesBrokenConnection: engine === 'postgres',
    open(options) {
      const db = new DataSource(optionsOf(options))
      let connected: Promise<void> | undefined
      const connect = async (): Promise<void> => {
        await db.initialize()
        for (const statement of isPostgres ? [] : setupOf(options)) {
          db.driver.pool?.on('connection', (connection) => connection.query(statement))
          // The connection that `initialize` has opened.
          await db.query(statement)
        }
      }
      return {
        db,
        ready: () => (connected ??= connect()),
        transact: (work) => db.transaction(work),
        close: () => db.destroy(),
      } satisfies LibraryRoot
    },
    async exec(tx, text, parameters) {
      const answer = await (tx as EntityManager).query(text, [...parameters])
      return Array.isArray(answer) ? (answer as Row[]) : []
    },
    nested: (tx, work) => (tx as EntityManager).transaction(work),
    stray: {
      'a DataSource': ({ db }) => db,
      'the manager of a DataSource': ({ db }) => (db as DataSource).manager,
      'a QueryRunner without a transaction': ({ db }) => (db as DataSource).createQueryRunner(),
    },
  }
}

function optionsOf(options: LibraryOptions): object {
  const { engine, url, max } = options
  return engine === 'postgres'
    ? { type: 'postgres', url, poolSize: max, extra: settingsOf(options) }
    : { type: engine === 'mysql' ? 'mysql' : 'mariadb', connectorPackage: 'mysql2', url, poolSize: max }
}
