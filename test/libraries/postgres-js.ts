import type { Row } from '../support/engines/target.ts'
import type { LibraryModule, LibraryOptions } from './library-under-test.ts'

interface PostgresModule {
  readonly default: (url: string, options: object) => Sql
  readonly camel: object
}
interface Sql {
  unsafe(text: string, parameters?: readonly unknown[]): Promise<Row[]>
  begin<T>(work: (tx: Transaction) => Promise<T>): Promise<T>
  reserve(): Promise<{ release(): void }>
  end(options: { timeout: number }): Promise<void>
}
interface Transaction extends Sql {
  savepoint<T>(work: (tx: Transaction) => Promise<T>): Promise<T>
}

/** The options of an instance of postgres.js under test. */
export function clientOptions({ max, isolation }: Pick<LibraryOptions, 'max' | 'isolation'>): object {
  return {
    max,
    // The tests look for COMMIT in what is sent, where a prepared statement is only a number.
    prepare: false,
    onnotice: () => undefined,
    connection: isolation === undefined ? {} : { default_transaction_isolation: isolation },
  }
}

/** postgres.js, with the option by which most of its users rename columns. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load) => {
  const { default: postgres, camel } = (await load('postgres')) as PostgresModule
  return {
    name: 'postgres.js',
    driver: 'hidden',
    hidesConnection: true,
    rootFor: 'all',
    keptHandleJoins: true,
    takesSavepoints: false,
    refusesBegin: true,
    losesConnectionAtCommit: true,
    // postgres.js 3.4.9 writes to a socket that is null, in a callback of its own.
    endsProcessWhenBroken: true,
    open({ url, max, isolation }) {
      const db = postgres(url, { ...clientOptions({ max, isolation }), transform: camel })
      return { db, transact: (work) => db.begin(work), close: () => db.end({ timeout: 0.1 }) }
    },
    exec: (tx, text, parameters) => (tx as Transaction).unsafe(text, parameters),
    nested: (tx, work) => (tx as Transaction).savepoint(work),
    stray: { 'a root of postgres.js': ({ db }) => db },
    strayDuring: {
      async 'a reserved connection of postgres.js'({ db }, use) {
        const reserved = await (db as Sql).reserve()
        await use(reserved).finally(() => reserved.release())
      },
    },
  }
}
