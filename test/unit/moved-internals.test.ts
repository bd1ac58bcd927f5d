import { describe, expect, test } from 'vitest'
import { NotInTransactionError, UnsupportedTransactionError } from '@txbox/core'
import { Resolver } from '../../packages/sql/src/transactions/resolver/resolver.ts'

const none = (): undefined => undefined

/** Open transactions of versions that keep the connection elsewhere, and the property that is missing there. */
const MOVED: Readonly<Record<string, { readonly handle: object; readonly names: readonly RegExp[] }>> = {
  Drizzle: {
    handle: { session: {}, dialect: {}, transaction: none, execute: none, rollback: none, nestedIndex: 0 },
    names: [/tx\.session\.client/, /0\.45/, /1\.0\.0-rc/],
  },
  Sequelize: {
    handle: { sequelize: {}, commit: none, LOCK: {}, getConnectionIfExists: none },
    names: [/transaction\.connection/, /6\.37/, /7\.0\.0-alpha\.48/],
  },
  MikroORM: {
    handle: {
      isInTransaction: () => true,
      getTransactionContext: none,
      getConnection: none,
      transactional: none,
    },
    names: [/em\.getTransactionContext\(\)/, /MikroORM 6\.6/, /7\.2/],
  },
}

describe.each(Object.entries(MOVED))(
  'a transaction of a %s that keeps its connection elsewhere',
  (_, moved) => {
    for (const engine of ['postgres', 'mysql'] as const) {
      test(`is unsupported, and the error names the property, the versions and sqlTransaction (${engine})`, async () => {
        const resolve = async (): Promise<unknown> => new Resolver(engine).transaction(moved.handle)
        const refused = await resolve().catch((error: unknown) => error)
        expect(refused).toBeInstanceOf(UnsupportedTransactionError)
        for (const text of [...moved.names, /sqlTransaction/, /Nothing was written/]) {
          expect(String(refused)).toMatch(text)
        }
      })
    }
  },
)

/** What users pass by mistake, or too late: no transaction is open, and the version is supported. */
const CLOSED: Readonly<Record<string, object>> = {
  'a database of Drizzle': { session: {}, dialect: {}, transaction: none, execute: none },
  'an ended transaction of Sequelize': { sequelize: {}, commit: none, LOCK: {}, finished: 'commit' },
  'the em of an ORM': {
    isInTransaction: () => false,
    getTransactionContext: none,
    getConnection: none,
    transactional: none,
  },
  'the manager of a DataSource': { '@instanceof': Symbol.for('EntityManager') },
}

test.each(Object.entries(CLOSED))('%s is no open transaction', async (_, handle) => {
  await expect(new Resolver('postgres').transaction(handle)).rejects.toThrow(NotInTransactionError)
})
