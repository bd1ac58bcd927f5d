import { numbered, settingsOf } from '../support/postgres-pool.ts'
import type { Row } from '../support/target.ts'
import type { LibraryModule, LibraryRoot } from './library-under-test.ts'
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

/** Prisma on its adapter for pg. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load) => {
  const { PrismaClient } = (await importClient()) as Generated
  const { PrismaPg } = (await load('@prisma/adapter-pg')) as {
    PrismaPg: new (options: object) => object
  }

  return {
    name: 'Prisma on pg',
    driver: 'hidden',
    hidesConnection: true,
    rootFor: 'run',
    keepsRefusedCommit: true,
    open(options) {
      const adapter = new PrismaPg({
        connectionString: options.url,
        max: options.max,
        ...settingsOf(options),
      })
      const db = new PrismaClient({ adapter })
      return {
        db,
        transact: (work) => db.$transaction(work, LIMITS),
        close: () => db.$disconnect(),
      } satisfies LibraryRoot
    },
    exec(tx, text, parameters) {
      const sql = numbered(text)
      if (/^\s*(?:select|show)\b/i.test(text)) return (tx as Transaction).$queryRawUnsafe(sql, ...parameters)
      return (tx as Transaction).$executeRawUnsafe(sql, ...parameters).then(() => [])
    },
    nested: (tx, work) => (tx as Transaction).$transaction(work),
    stray: {
      'a PrismaClient': ({ db }) => db,
    },
  }
}
