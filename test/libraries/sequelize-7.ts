import { setupOf } from '../support/engines/mysql-pool.ts'
import { settingsOf } from '../support/engines/postgres-pool.ts'
import type { LibraryModule, LibraryRoot } from './library-under-test.ts'
import { execute, prepareConnections, type Sequelize, type Transaction } from './sequelize.ts'

/** Sequelize 7 on pg, and on mysql2. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load, engine) => {
  const { Sequelize } = (await load('@sequelize/core')) as { Sequelize: new (options: object) => Sequelize }
  const dialects = (await load(engine === 'postgres' ? '@sequelize/postgres' : '@sequelize/mysql')) as {
    PostgresDialect?: unknown
    MySqlDialect?: unknown
  }
  const driver = engine === 'postgres' ? 'pg' : 'mysql2'

  return {
    name: `Sequelize 7 on ${driver}`,
    driver,
    rootFor: 'all',
    open(options) {
      const sequelize = new Sequelize({
        dialect: engine === 'postgres' ? dialects.PostgresDialect : dialects.MySqlDialect,
        url: options.url,
        ...(engine === 'postgres' && settingsOf(options)),
        pool: { max: options.max },
      })
      // The hooks of this version get the connection first, too.
      prepareConnections(sequelize.hooks!, engine === 'postgres' ? [] : setupOf(options))
      return {
        db: sequelize,
        transact: (work) => sequelize.transaction(work),
        close: () => sequelize.close(),
      } satisfies LibraryRoot
    },
    exec: execute,
    nested(tx, work) {
      const options = { transaction: tx, nestMode: 'savepoint' }
      return (tx as Transaction).sequelize.transaction(options, (inner) => work(inner))
    },
    stray: { 'a root of Sequelize': ({ db }) => db },
  }
}
