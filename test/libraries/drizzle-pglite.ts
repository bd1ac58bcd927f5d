import type { Row } from '../support/engines/target.ts'
import { drizzleQuery, type Database, type Sql, type Transaction } from './drizzle.ts'
import type { LibraryModule, LibraryRoot } from './library-under-test.ts'

interface DrizzleModule {
  readonly drizzle: (options: { client: object }) => Database
}

/** Drizzle on PGlite, whose one connection all roots share. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load) => {
  const { drizzle } = (await load('drizzle-orm/pglite')) as DrizzleModule
  const { sql } = (await load('drizzle-orm')) as Sql
  return {
    name: 'Drizzle on PGlite',
    driver: 'hidden',
    rootFor: 'all',
    open({ pglite }) {
      const db = drizzle({ client: pglite! })
      return {
        db,
        transact: (work) => db.transaction(work),
        close: async () => undefined,
      } satisfies LibraryRoot
    },
    async exec(tx, text, parameters) {
      const answer = await (tx as Transaction).execute(drizzleQuery(sql, text, parameters))
      return (answer as { rows: Row[] }).rows
    },
    nested: (tx, work) => (tx as Transaction).transaction(work),
    stray: { 'a database of Drizzle': ({ db }) => db },
  }
}
