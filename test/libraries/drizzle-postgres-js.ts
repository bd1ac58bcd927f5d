import type { Row } from '../support/engines/target.ts'
import { drizzleQuery, type Database, type Sql, type Transaction } from './drizzle.ts'
import type { LibraryModule, LibraryRoot } from './library-under-test.ts'
import { clientOptions } from './postgres-js.ts'

interface PostgresModule {
  readonly default: (url: string, options: object) => { end(options: { timeout: number }): Promise<void> }
}
interface DrizzleModule {
  readonly drizzle: (options: { client: object }) => Database
}

/** Drizzle on postgres.js. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load) => {
  const { default: postgres } = (await load('postgres')) as PostgresModule
  const { drizzle } = (await load('drizzle-orm/postgres-js')) as DrizzleModule
  const { sql } = (await load('drizzle-orm')) as Sql
  return {
    name: 'Drizzle on postgres.js',
    driver: 'hidden',
    hidesConnection: true,
    rootFor: 'all',
    keptHandleJoins: true,
    // All of postgres.js.
    takesSavepoints: false,
    refusesBegin: true,
    losesConnectionAtCommit: true,
    endsProcessWhenBroken: true,
    keepsIdleTransactions: true,
    // postgres.js sends the statements of the broken transaction again on the connection that replaces it.
    losesBrokenConnection: true,
    open({ url, max, isolation }) {
      const client = postgres(url, clientOptions({ max, isolation }))
      const db = drizzle({ client })
      return {
        db,
        transact: (work) => db.transaction(work),
        close: () => client.end({ timeout: 0.1 }),
      } satisfies LibraryRoot
    },
    exec: async (tx, text, parameters) =>
      (await (tx as Transaction).execute(drizzleQuery(sql, text, parameters))) as Row[],
    nested: (tx, work) => (tx as Transaction).transaction(work),
    stray: { 'a database of Drizzle': ({ db }) => db },
  }
}
