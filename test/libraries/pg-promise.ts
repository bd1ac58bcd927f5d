import type { Row } from '../support/engines/target.ts'
import type { LibraryModule } from './library-under-test.ts'

interface PgPromise {
  readonly default: (options: object) => (config: object) => Database
}
interface Task {
  any(query: { text: string; values: readonly unknown[] }): Promise<Row[]>
  tx<T>(work: (tx: Task) => Promise<T>): Promise<T>
}
interface Database extends Task {
  task<T>(work: (task: Task) => Promise<T>): Promise<T>
  readonly $pool: { end(): Promise<void> } & object
}

/** pg-promise, with the option by which its users rename columns. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load) => {
  const { default: pgPromise } = (await load('pg-promise')) as PgPromise
  const connect = pgPromise({ noWarnings: true, receive: renameColumns })
  return {
    name: 'pg-promise',
    driver: 'hidden',
    hidesConnection: true,
    rootFor: 'all',
    losesConnectionAtCommit: true,
    open({ url, max, isolation }) {
      const db = connect({
        connectionString: url,
        max,
        ...(isolation !== undefined && {
          options: `-c default_transaction_isolation=${isolation.replace(' ', '\\ ')}`,
        }),
      })
      return { db, transact: (work) => db.tx(work), close: () => db.$pool.end() }
    },
    exec: (tx, text, parameters) => (tx as Task).any({ text, values: parameters }),
    nested: (tx, work) => (tx as Task).tx(work),
    stray: {
      'a database of pg-promise': ({ db }) => db,
      'a pool of pg-promise': ({ db }) => (db as Database).$pool,
    },
    strayDuring: {
      'a task of pg-promise outside a transaction': ({ db }, use) => (db as Database).task(use),
    },
  }
}

function renameColumns({ data }: { data: Record<string, unknown>[] }): void {
  for (const row of data) {
    for (const [name, value] of Object.entries(row)) {
      const renamed = name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
      if (renamed === name) continue
      row[renamed] = value
      delete row[name]
    }
  }
}
