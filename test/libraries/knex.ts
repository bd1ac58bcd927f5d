import type { Row } from '../support/engines/target.ts'
import type { LibraryModule, LibraryOptions, LibraryRoot } from './library-under-test.ts'

interface Transaction {
  raw(sql: string, bindings: readonly unknown[]): Promise<unknown>
  transaction(work: (trx: Transaction) => Promise<void>): Promise<void>
}
interface Knex {
  transaction<T>(work: (trx: object) => Promise<T>): Promise<T>
  destroy(): Promise<void>
}
type CreateKnex = (config: object) => Knex

/** Knex on pg, and on mysql2. Objection passes the same transactions. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load, engine) => {
  const module = (await load('knex')) as { default: CreateKnex }
  const isPostgres = engine === 'postgres'
  return {
    name: `Knex on ${isPostgres ? 'pg' : 'mysql2'}`,
    driver: isPostgres ? 'pg' : 'mysql2',
    losesConnectionAtCommit: true,
    rootFor: 'all',
    open(options) {
      const db = module.default(configOf(options))
      return {
        db,
        transact: (work) => db.transaction(work),
        close: () => db.destroy(),
      } satisfies LibraryRoot
    },
    async exec(tx, text, parameters) {
      // Knex counts `?`, also on PostgreSQL.
      const answer = await (tx as Transaction).raw(text.replaceAll(/\$\d+/g, '?'), [...parameters])
      if (isPostgres) return (answer as { rows: Row[] }).rows
      const [rows] = answer as [unknown]
      return Array.isArray(rows) ? (rows as Row[]) : []
    },
    nested: (tx, work) => (tx as Transaction).transaction(work),
    stray: { 'a Knex': ({ db }) => db },
  }
}

function configOf({ engine, url, max, isolation }: LibraryOptions): object {
  const statements =
    isolation === undefined
      ? []
      : [
          engine === 'postgres'
            ? `set default_transaction_isolation = '${isolation}'`
            : `set session transaction isolation level ${isolation === 'snapshot isolation' ? 'repeatable read' : isolation}`,
          ...(engine === 'mariadb'
            ? [`set session innodb_snapshot_isolation = ${isolation === 'snapshot isolation' ? 'on' : 'off'}`]
            : []),
        ]
  return {
    client: engine === 'postgres' ? 'pg' : 'mysql2',
    connection: engine === 'postgres' ? { connectionString: url } : url,
    pool: {
      min: 0,
      max,
      afterCreate(
        connection: { query(sql: string, done: (error: unknown) => void): void },
        done: (error: unknown, connection: unknown) => void,
      ) {
        const next = (index: number): void => {
          const statement = statements[index]
          if (statement === undefined) return done(undefined, connection)
          connection.query(statement, (error) =>
            error === null || error === undefined ? next(index + 1) : done(error, connection),
          )
        }
        next(0)
      },
    },
  }
}
