import { setupOf } from '../support/engines/mysql-pool.ts'
import { numbered, settingsOf } from '../support/engines/postgres-pool.ts'
import type { Isolation, Row } from '../support/engines/target.ts'
import type { LibraryModule, LibraryOptions, LibraryRoot } from './library-under-test.ts'
import { importClient } from './prisma-client.ts'

interface Generated {
  readonly PrismaClient: new (options: object) => Client
}
interface Transaction {
  readonly counter: { update(options: object): Promise<unknown> }
  $queryRawUnsafe(text: string, ...values: readonly unknown[]): Promise<Row[]>
  $executeRawUnsafe(text: string, ...values: readonly unknown[]): Promise<number>
  $transaction<T>(work: (tx: Transaction) => Promise<T>, options?: object): Promise<T>
}
interface Client extends Transaction {
  $disconnect(): Promise<void>
}
type Adapter = new (settings: object, options?: object) => object

/** Longer than any test waits. */
const LIMITS = { timeout: 60_000, maxWait: 30_000 }

/** Prisma sets the level itself: `initSql` of the connector would leave a rejection unhandled when a connection breaks. */
const LEVELS: Readonly<Record<Isolation | 'none', string | undefined>> = {
  none: undefined,
  'read committed': 'ReadCommitted',
  'repeatable read': 'RepeatableRead',
  'snapshot isolation': 'RepeatableRead',
}

/** Prisma on its adapter for pg, and on that for the connector `mariadb`. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load, engine) => {
  const isPostgres = engine === 'postgres'
  const { PrismaClient } = (await importClient(isPostgres ? 'postgresql' : 'mysql')) as Generated
  const { PrismaPg, PrismaMariaDb } = (await load(
    isPostgres ? '@prisma/adapter-pg' : '@prisma/adapter-mariadb',
  )) as { readonly PrismaPg: Adapter; readonly PrismaMariaDb: Adapter }
  // MySQL prepares no savepoints. On MariaDB, Prisma's default protocol is tested.
  const protocol = { useTextProtocol: engine === 'mysql' }

  return {
    name: `Prisma on ${isPostgres ? 'pg' : 'mariadb'}`,
    driver: 'hidden',
    hidesConnection: true,
    rootFor: 'run',
    keepsRefusedCommit: isPostgres,
    // The question whether a transaction is open travels with a write, and with the release of the savepoint that marks
    // the transaction of a handler. The savepoint itself travels with the claim.
    ...(!isPostgres && { extraRoundTrips: { perCall: 1, afterHandler: 1 } }),
    open(options) {
      const adapter = isPostgres
        ? new PrismaPg({ connectionString: options.url, max: options.max, ...settingsOf(options) })
        : new PrismaMariaDb(configOf(options), protocol)
      const isolationLevel = isPostgres ? undefined : LEVELS[options.isolation ?? 'none']
      const db = new PrismaClient({ adapter, transactionOptions: { isolationLevel } })
      let filled: Promise<void> | undefined
      return {
        db,
        ...(!isPostgres && { ready: () => (filled ??= fillPool(db, options.max)) }),
        transact: (work) => db.$transaction(work, LIMITS),
        close: () => db.$disconnect(),
      } satisfies LibraryRoot
    },
    exec(tx, text, parameters) {
      const sql = isPostgres ? numbered(text) : text
      if (/^\s*(?:select|show)\b/i.test(text)) return (tx as Transaction).$queryRawUnsafe(sql, ...parameters)
      return (tx as Transaction).$executeRawUnsafe(sql, ...parameters).then(() => [])
    },
    nested: (tx, work) => (tx as Transaction).$transaction(work),
    async incrementByModel(tx, name) {
      await (tx as Transaction).counter.update({ where: { name }, data: { n: { increment: 1 } } })
    },
    stray: {
      'a PrismaClient': ({ db }) => db,
    },
  }
}

/** The pool of `mariadb` opens connections in the background, which would count as round trips. */
async function fillPool(db: Client, max: number): Promise<void> {
  const full = Promise.withResolvers<void>()
  let open = 0
  const hold = async (tx: Transaction): Promise<void> => {
    await tx.$queryRawUnsafe('select 1')
    if (++open === max) full.resolve()
    await full.promise
  }
  await Promise.all(Array.from({ length: max }, () => db.$transaction(hold, LIMITS)))
}

function configOf(options: LibraryOptions): object {
  const { hostname, port, username, password, pathname } = new URL(options.url)
  const setup = setupOf(options).slice(1)
  return {
    host: hostname,
    port: Number(port === '' ? 3306 : port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: pathname.slice(1),
    connectionLimit: options.max,
    allowPublicKeyRetrieval: true,
    // Where no server listens, the pool tries again until this time limit, which is ten seconds by default.
    ...(port === '9' && { acquireTimeout: 300 }),
    // The level itself is Prisma's option.
    ...(setup.length > 0 && { initSql: setup }),
  }
}
