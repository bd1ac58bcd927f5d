import { poolOf as mysqlPoolOf, setupOf } from '../support/engines/mysql-pool.ts'
import { poolOf as pgPoolOf, settingsOf } from '../support/engines/postgres-pool.ts'
import type { Row } from '../support/engines/target.ts'
import type { LibraryModule, LibraryOptions, LibraryRoot } from './library-under-test.ts'

interface DrizzleModule {
  readonly drizzle: (options: { client: object }) => Database
}
export interface Database {
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>
}
export interface Transaction extends Database {
  execute(query: unknown): Promise<unknown>
}
export interface Sql {
  readonly sql: {
    raw(text: string): unknown
    join(parts: unknown[]): unknown
    param(value: unknown): unknown
  }
}

/** Drizzle on pg, and on mysql2. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load, engine, version) => {
  const driver = engine === 'postgres' ? 'node-postgres' : 'mysql2'
  const { drizzle } = (await load(`drizzle-orm/${driver}`)) as DrizzleModule
  const { sql } = (await load('drizzle-orm')) as Sql

  return {
    name: `Drizzle on ${engine === 'postgres' ? 'pg' : 'mysql2'}`,
    driver: engine === 'postgres' ? 'pg' : 'mysql2',
    // Drizzle 0.45 sends BEGIN before the block that releases the connection.
    losesConnectionAtBegin: version === 'oldest',
    rootFor: 'all',
    keptHandleJoins: true,
    open(options) {
      const { client, close } = openClient(options)
      const db = drizzle({ client })
      return { db, transact: (work) => db.transaction(work), close } satisfies LibraryRoot
    },
    async exec(tx, text, parameters) {
      const answer = await (tx as Transaction).execute(drizzleQuery(sql, text, parameters))
      if (engine === 'postgres') return (answer as { rows: Row[] }).rows
      const [rows] = answer as [unknown]
      return Array.isArray(rows) ? (rows as Row[]) : []
    },
    nested: (tx, work) => (tx as Transaction).transaction(work),
    stray: {
      'a database of Drizzle': ({ db }) => db,
    },
  }
}

/** Drizzle numbers the parameters by itself. */
export function drizzleQuery(sql: Sql['sql'], text: string, parameters: readonly unknown[]): unknown {
  const parts = text.split(/\$\d+|\?/).map((part) => sql.raw(part))
  return sql.join(parts.flatMap((part, n) => (n === 0 ? [part] : [sql.param(parameters[n - 1]), part])))
}

function openClient(options: LibraryOptions): { client: object; close: () => Promise<void> } {
  const { url, max, engine } = options
  if (engine === 'postgres') {
    const pool = pgPoolOf(url, { max, ...settingsOf(options) })
    return { client: pool, close: () => pool.end() }
  }
  const pool = mysqlPoolOf(url, { connectionLimit: max }, setupOf(options)).promise()
  return { client: pool, close: () => pool.end() }
}
