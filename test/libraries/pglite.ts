import type { Row } from '../support/engines/target.ts'
import type { LibraryModule } from './library-under-test.ts'
import { inSavepoint } from './savepoint.ts'

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
  nested: (tx, work) =>
    inSavepoint(
      (sql) => (tx as Transaction).query(sql, []),
      () => work(tx),
    ),
  stray: { 'a database of PGlite': ({ db }) => db },
})
