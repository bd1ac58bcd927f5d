import { postgres } from '@txbox/postgres'
import { CompiledQuery, Kysely, PostgresDialect, type Transaction } from 'kysely'
import { Pool, type PoolClient } from 'pg'
import { importLibrary } from '../../test/libraries/library-under-test.ts'
import type { BenchDatabase } from '../postgres/bench-database.ts'
import { transaction } from '../postgres/transaction.ts'
import {
  anyAccount,
  assertWorkDone,
  checkpoint,
  createWorkspace,
  creditStatement,
} from '../postgres/workspace.ts'
import type { BenchLibrary, HandlesOn, MeasuredLibrary } from './handles-suite.ts'

const REACHING = ['drizzle', 'knex', 'typeorm', 'sequelize-7', 'mikroorm']
const HIDING = ['prisma', 'postgres-js', 'pg-promise']

export function handlesOnPostgres(database: BenchDatabase): HandlesOn {
  const pool = database.pool({ max: 1 })
  return {
    url: database.url,
    engine: 'postgres',
    async libraries() {
      // Later connections have the setting. A wait for the disk would hide what the code costs, and a noisy disk drowns it.
      await pool.query(`do $$ begin
        execute format('alter database %I set synchronous_commit = off', current_database());
      end $$`)
      return [
        { library: PG, reachesDriver: true },
        { library: KYSELY, reachesDriver: true },
        ...(await librariesOf(REACHING, true)),
        ...(await librariesOf(HIDING, false)),
      ]
    },
    work: {
      claim: (tables) => `insert into ${tables}inbox (consumer, key, processed_at, expires_at)
        values ($1, $2, now(), now() + interval '7 days') on conflict (consumer, key) do nothing`,
      credit: (tables) => creditStatement(tables.slice(0, -1)),
      databaseOf: (schema) => postgres({ schema }),
      tablesOf: (schema) => `${schema}.`,
    },
    async createWorkspace(schema) {
      await createWorkspace(pool, schema)
      await checkpoint(pool)
    },
    assertWorkDone: (schema, transactions) =>
      assertWorkDone(pool, schema, { credits: transactions, inbox: transactions }),
    anyAccount,
    close: () => database.close(pool),
  }
}

async function librariesOf(names: readonly string[], reachesDriver: boolean): Promise<MeasuredLibrary[]> {
  const libraries: MeasuredLibrary[] = []
  for (const name of names) {
    libraries.push({ library: await importLibrary(name, 'postgres'), reachesDriver })
  }
  return libraries
}

export const PG: BenchLibrary = {
  name: 'pg',
  driver: 'pg',
  rootFor: 'all',
  open({ url, max }) {
    const pool = new Pool({ connectionString: url, max })
    return {
      db: pool,
      async transact<T>(work: (tx: object) => Promise<T>): Promise<T> {
        let result: T | undefined
        await transaction(pool, async (client) => (result = await work(client)))
        return result as T
      },
      close: () => pool.end(),
    }
  },
  exec: async (tx, text, parameters) => (await (tx as PoolClient).query(text, [...parameters])).rows as never,
}

export const KYSELY: BenchLibrary = {
  name: 'Kysely',
  driver: 'kysely',
  rootFor: 'all',
  open({ url, max }) {
    const db = new Kysely<object>({
      dialect: new PostgresDialect({ pool: new Pool({ connectionString: url, max }) }),
    })
    return { db, transact: (work) => db.transaction().execute(work), close: () => db.destroy() }
  },
  async exec(tx, text, parameters) {
    const { rows } = await (tx as Transaction<object>).executeQuery(CompiledQuery.raw(text, [...parameters]))
    return rows as never
  },
}
