import type { Row } from '../support/target.ts'
import type { LibraryModule } from './library-under-test.ts'

interface Pglite {
  transaction<T>(work: (tx: object) => Promise<T>): Promise<T>
}
interface Transaction {
  query(text: string, parameters: readonly unknown[]): Promise<{ rows: Row[] }>
}

/** PGlite, whose one connection all roots share. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async () => ({
  name: 'PGlite',
  driver: 'hidden',
  rootFor: 'all',
  open({ pglite }) {
    const db = pglite as Pglite
    return { db, transact: (work) => db.transaction(work), close: async () => undefined }
  },
  exec: async (tx, text, parameters) => (await (tx as Transaction).query(text, parameters)).rows,
  nested: async (tx, work) => {
    // PGlite has no savepoints but those of SQL.
    const query = (text: string, parameters: readonly unknown[]): Promise<unknown> =>
      (tx as Transaction).query(text, parameters)
    await query('savepoint nested', [])
    try {
      await work(tx)
    } catch (error) {
      await query('rollback to savepoint nested', [])
      throw error
    }
  },
  stray: { 'a database of PGlite': ({ db }) => db },
})
