import { setupOf } from '../support/engines/mysql-pool.ts'
import { settingsOf } from '../support/engines/postgres-pool.ts'
import type { Row } from '../support/engines/target.ts'
import type { LibraryModule, LibraryRoot } from './library-under-test.ts'

export interface Sequelize extends Hooks {
  /** Sequelize 7. */
  readonly hooks?: Hooks
  transaction<T>(work: (tx: Transaction) => Promise<T>): Promise<T>
  transaction<T>(options: object, work: (tx: Transaction) => Promise<T>): Promise<T>
  query(sql: string, options: object): Promise<unknown>
  close(): Promise<void>
}
interface Hooks {
  addHook?(name: 'afterConnect', hook: AfterConnect): void
  /** Sequelize 7. */
  addListener?(name: 'afterConnect', hook: AfterConnect): void
}
type AfterConnect = (connection: Connection) => Promise<void>
export interface Transaction {
  readonly sequelize: Sequelize
}
interface Connection {
  on(event: 'error', listener: () => void): void
  query(sql: string, done: (error: Error | null) => void): void
}

/** Sequelize 6 on pg, and on mysql2. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load, engine) => {
  const { Sequelize } = (await load('sequelize')) as {
    Sequelize: new (url: string, options: object) => Sequelize
  }
  const driver = engine === 'postgres' ? 'pg' : 'mysql2'
  const dialectModule = ((await load(driver)) as { default: object }).default

  return {
    name: `Sequelize 6 on ${driver}`,
    driver,
    rootFor: 'all',
    open(options) {
      const sequelize = new Sequelize(options.url, {
        // Sequelize's own dialect for MariaDB needs the other driver, of which it knows version 2 only.
        dialect: engine === 'postgres' ? 'postgres' : 'mysql',
        dialectModule,
        dialectOptions: engine === 'postgres' ? settingsOf(options) : {},
        pool: { max: options.max },
        logging: false,
      })
      prepareConnections(sequelize, engine === 'postgres' ? [] : setupOf(options))
      return {
        db: sequelize,
        transact: (work) => sequelize.transaction(work),
        close: () => sequelize.close(),
      } satisfies LibraryRoot
    },
    exec: execute,
    nested: (tx, work) =>
      (tx as Transaction).sequelize.transaction({ transaction: tx }, (inner) => work(inner)),
    stray: { 'a root of Sequelize': ({ db }) => db },
  }
}

/** `setup`: statements that each new connection begins with. Tests kill connections on purpose. */
export function prepareConnections(hooks: Hooks, setup: readonly string[]): void {
  const prepare: AfterConnect = async (connection) => {
    connection.on('error', () => undefined)
    for (const statement of setup) {
      await new Promise<void>((resolve, reject) => {
        connection.query(statement, (error) => (error === null ? resolve() : reject(error)))
      })
    }
  }
  if (hooks.addListener === undefined) hooks.addHook!('afterConnect', prepare)
  else hooks.addListener('afterConnect', prepare)
}

/** SQL through the API that both versions have. */
export async function execute(
  tx: object,
  text: string,
  parameters: readonly unknown[],
): Promise<readonly Row[]> {
  const values = text.includes('$1') ? { bind: parameters } : { replacements: parameters }
  const options = parameters.length === 0 ? {} : values
  const answer = await (tx as Transaction).sequelize.query(text, { transaction: tx, ...options })
  const [rows] = answer as [unknown]
  return Array.isArray(rows) ? (rows as Row[]) : []
}
