import { setupOf } from '../support/mysql-pool.ts'
import { numbered, settingsOf } from '../support/postgres-pool.ts'
import type { Row } from '../support/target.ts'
import type { LibraryModule, LibraryOptions, LibraryRoot } from './library-under-test.ts'
import { importClient } from './prisma-client.ts'

interface Generated {
  readonly PrismaClient: new (options: object) => Client
}
interface Transaction {
  $queryRawUnsafe(text: string, ...values: readonly unknown[]): Promise<Row[]>
  $executeRawUnsafe(text: string, ...values: readonly unknown[]): Promise<number>
  $transaction<T>(work: (tx: Transaction) => Promise<T>, options?: object): Promise<T>
}
interface Client extends Transaction {
  $disconnect(): Promise<void>
}

/** Longer than any test waits. */
const LIMITS = { timeout: 60_000, maxWait: 30_000 }

/** Prisma on its adapter for pg, and on that for the connector `mariadb`. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load, engine) => {
  const { PrismaClient } = (await importClient(engine === 'postgres' ? 'postgresql' : 'mysql')) as Generated
  const { PrismaPg, PrismaMariaDb } = (await load(
    engine === 'postgres' ? '@prisma/adapter-pg' : '@prisma/adapter-mariadb',
  )) as Readonly<Record<string, new (...options: readonly unknown[]) => object>>

  return {
    name: `Prisma on ${engine === 'postgres' ? 'pg' : 'mariadb'}`,
    driver: 'hidden',
    hidesConnection: true,
    rootFor: 'run',
    // The pool of the connector `mariadb` rolls back itself.
    keepsRefusedCommit: engine === 'postgres',
    open(options) {
      const adapter =
        engine === 'postgres'
          ? new PrismaPg!({ connectionString: options.url, max: options.max, ...settingsOf(options) })
          : new PrismaMariaDb!(configOf(options))
      const db = new PrismaClient({ adapter })
      return {
        db,
        transact: (work) => db.$transaction(work, LIMITS),
        close: () => db.$disconnect(),
      } satisfies LibraryRoot
    },
    exec(tx, text, parameters) {
      const sql = engine === 'postgres' ? numbered(text) : text
      if (/^\s*(?:select|show)\b/i.test(text)) return (tx as Transaction).$queryRawUnsafe(sql, ...parameters)
      return (tx as Transaction).$executeRawUnsafe(sql, ...parameters).then(() => [])
    },
    nested: (tx, work) => (tx as Transaction).$transaction(work),
    stray: {
      'a PrismaClient': ({ db }) => db,
    },
  }
}

function configOf(options: LibraryOptions): object {
  const { hostname, port, username, password, pathname } = new URL(options.url)
  return {
    host: hostname,
    port: Number(port === '' ? 3306 : port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: pathname.slice(1),
    connectionLimit: options.max,
    allowPublicKeyRetrieval: true,
    initSql: [...setupOf(options)],
  }
}
