import { mysql } from '@txbox/mysql'
import { createPool, type PoolConnection } from 'mysql2/promise'
import { importLibrary } from '../../test/libraries/library-under-test.ts'
import type { BenchDatabase } from '../mysql/bench-database.ts'
import { transaction } from '../mysql/transaction.ts'
import { anyAccount, assertWorkDone, createWorkspace, creditStatement } from '../mysql/workspace.ts'
import type { BenchLibrary, HandlesOn } from './handles-suite.ts'

export function handlesOnMysql(database: BenchDatabase, engine: 'mysql' | 'mariadb'): HandlesOn {
  const pool = database.pool(1)
  return {
    url: database.url,
    engine,
    libraries: async () => [
      { library: MYSQL2, reachesDriver: true },
      // The promise API, on either server.
      { library: await importLibrary('mariadb', 'mariadb'), reachesDriver: true },
      { library: await importLibrary('prisma', engine), reachesDriver: false },
    ],
    work: {
      claim: (tables) => `insert into ${tables}inbox (consumer, \`key\`, processed_at, expires_at)
        values (?, ?, utc_timestamp(6), utc_timestamp(6) + interval 7 day)`,
      credit: creditStatement,
      databaseOf: (prefix) => mysql({ prefix: `${prefix}_` }),
      tablesOf: (prefix) => `${prefix}_`,
    },
    createWorkspace: (prefix) => createWorkspace(pool, `${prefix}_`),
    assertWorkDone: (prefix, transactions) =>
      assertWorkDone(pool, `${prefix}_`, { credits: transactions, inbox: transactions }),
    anyAccount,
    close: () => pool.end(),
  }
}

const MYSQL2: BenchLibrary = {
  name: 'mysql2',
  driver: 'mysql2',
  rootFor: 'all',
  open({ url, max }) {
    const pool = createPool({ uri: url, connectionLimit: max })
    return {
      db: pool,
      async transact<T>(work: (tx: object) => Promise<T>): Promise<T> {
        let result: T | undefined
        await transaction(pool, async (connection) => (result = await work(connection)))
        return result as T
      },
      close: () => pool.end(),
    }
  },
  async exec(tx, text, parameters) {
    const [rows] = await (tx as PoolConnection).query(text, [...parameters])
    return Array.isArray(rows) ? (rows as never) : []
  },
}
