import { CamelCasePlugin, Kysely, PostgresDialect } from 'kysely'
import { Client, type Pool } from 'pg'
import { poolOf } from './postgres-pool.ts'
import { execOn, kyselyRoot, pgRoot } from './postgres-roots.ts'
import type { Root, Target } from './target.ts'

/** A user's settings on which the statements of txbox must not depend. */
export const oddRoots: Record<string, (url: string) => Root> = {
  'pg with type parsers that leave every value text': (url) =>
    pgRoot(poolOf(url, { types: { getTypeParser: () => (text: string) => text } }), {}),
  'pg in another time zone and date style': (url) =>
    pgRoot(
      poolOf(url, {
        options:
          '-c timezone=Asia/Kolkata -c datestyle=German -c extra_float_digits=0 -c intervalstyle=postgres_verbose',
      }),
      {},
    ),
  'pg with another search path and quoting': (url) =>
    pgRoot(withOldStrings(poolOf(url, { options: '-c search_path=pg_catalog' })), {}),
  'Kysely with the CamelCasePlugin': (url) =>
    kyselyRoot(
      new Kysely({
        dialect: new PostgresDialect({ pool: poolOf(url, {}) }),
        plugins: [new CamelCasePlugin()],
      }),
      {},
    ),
}

/** PostgreSQL 19 supports only strings that conform to the standard. */
function withOldStrings(pool: Pool): Pool {
  return pool.on('connect', (client) => {
    void client.query(
      "select set_config('standard_conforming_strings', 'off', false) where current_setting('server_version_num')::int < 190000",
    )
  })
}

/** Each error aborts the transaction: everything after it is refused (25P02), and COMMIT rolls back without an error. */
export const abortions: Target['abortions'] = {
  'a table that is not there': (tx) => execOn(tx, 'select * from no_such_table', []),
  'a division by zero': (tx) => execOn(tx, 'select 1 / (?::int - 1)', [1]),
  'a statement that was cancelled': (tx) =>
    execOn(tx, 'set local statement_timeout = 5', []).then(() => execOn(tx, 'select pg_sleep(10)', [])),
  'a violated constraint': (tx) => execOn(tx, 'insert into public.effects (name) values (?)', [null]),
}

export const strayHandles: Record<
  string,
  (url: string, work: (handle: object) => Promise<void>) => Promise<void>
> = {
  'a pg.Pool': (url, work) => withPool(url, work),
  'a client of a pool, before BEGIN': (url, work) =>
    withPool(url, async (pool) => {
      const client = await pool.connect()
      try {
        await work(client)
      } finally {
        client.release()
      }
    }),
  'a client of a pool, after COMMIT': (url, work) =>
    withPool(url, async (pool) => {
      const client = await pool.connect()
      await client.query('BEGIN')
      await client.query('COMMIT')
      try {
        await work(client)
      } finally {
        client.release()
      }
    }),
  'a pg.Client, before BEGIN': async (url, work) => {
    const client = new Client(url)
    await client.connect()
    try {
      await work(client)
    } finally {
      await client.end()
    }
  },
  'a client with pipeline, before BEGIN': async (url, work) => {
    const client = new Client({ connectionString: url, pipeline: true })
    await client.connect()
    try {
      await work(client)
    } finally {
      await client.end()
    }
  },
  'a Kysely': (url, work) => withKysely(url, work),
  'a connection of Kysely': (url, work) => withKysely(url, (db) => db.connection().execute(work)),
  'a Kysely transaction, after its end': (url, work) =>
    withKysely(url, async (db) => work(await db.transaction().execute(async (tx) => tx))),
}

async function withPool(url: string, work: (pool: Pool) => Promise<void>): Promise<void> {
  const pool = poolOf(url, {})
  try {
    await work(pool)
  } finally {
    await pool.end()
  }
}

async function withKysely(url: string, work: (db: Kysely<object>) => Promise<void>): Promise<void> {
  const db = new Kysely<object>({ dialect: new PostgresDialect({ pool: poolOf(url, {}) }) })
  try {
    await work(db)
  } finally {
    await db.destroy()
  }
}
