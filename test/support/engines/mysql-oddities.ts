import { CamelCasePlugin, Kysely, MysqlDialect } from 'kysely'
import { format } from 'mysql2'
import { poolOf } from './mysql-pool.ts'
import { kyselyRoot, mysql2Root } from './mysql-roots.ts'
import type { Root } from './target.ts'

/** A user's settings on which the statements of txbox must not depend. */
export const oddRoots: Record<string, (url: string) => Root> = {
  'mysql2 with values as others want them': (url) =>
    mysql2Root(
      poolOf(url, {
        dateStrings: true,
        supportBigNumbers: true,
        bigNumberStrings: true,
        namedPlaceholders: true,
        decimalNumbers: true,
        timezone: '+05:30',
        typeCast: (field) => field.string(),
      }),
      {},
      'promise',
    ),
  'mysql2 with a queryFormat that wants values': (url) =>
    mysql2Root(
      poolOf(url, {
        queryFormat: (sql: string, values: object) => format(sql, Object.values(values)),
      }),
      {},
      'promise',
    ),
  'mysql2 that leaves every value a Buffer': (url) =>
    mysql2Root(poolOf(url, { typeCast: false }), {}, 'callback'),
  'mysql2 in another time zone and SQL mode': (url) =>
    mysql2Root(
      poolOf(url, {}, [
        "set session time_zone = '+05:30', sql_mode = 'ANSI_QUOTES,HIGH_NOT_PRECEDENCE,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'",
      ]),
      {},
      'promise',
    ),
  'mysql2 without a strict SQL mode, on latin1': (url) =>
    mysql2Root(poolOf(url, { charset: 'latin1_swedish_ci' }, ["set session sql_mode = ''"]), {}, 'promise'),
  'mysql2 that limits the rows of a SELECT': (url) =>
    mysql2Root(poolOf(url, {}, ['set session sql_select_limit = 1']), {}, 'promise'),
  'mysql2 that does not commit by itself': (url) =>
    mysql2Root(poolOf(url, {}, ['set session autocommit = 0']), {}, 'promise'),
  'mysql2 that takes several statements in one text': (url) =>
    mysql2Root(poolOf(url, { multipleStatements: true }), {}, 'promise'),
  'Kysely that takes several statements in one text': (url) =>
    kyselyRoot(
      new Kysely({ dialect: new MysqlDialect({ pool: poolOf(url, { multipleStatements: true }) }) }),
      {},
    ),
  'mysql2 without the FOUND_ROWS flag': (url) =>
    mysql2Root(poolOf(url, { flags: ['-FOUND_ROWS'] }), {}, 'promise'),
  'Kysely with the CamelCasePlugin': (url) =>
    kyselyRoot(
      new Kysely({ dialect: new MysqlDialect({ pool: poolOf(url, {}) }), plugins: [new CamelCasePlugin()] }),
      {},
    ),
  'Kysely without the FOUND_ROWS flag, and every value a Buffer': (url) =>
    kyselyRoot(
      new Kysely({
        dialect: new MysqlDialect({ pool: poolOf(url, { flags: ['-FOUND_ROWS'], typeCast: false }) }),
      }),
      {},
    ),
}

type Use = (url: string, work: (handle: object) => Promise<void>) => Promise<void>

export const strayHandles: Record<string, Use> = {
  'a mysql2 promise pool': async (url, work) => {
    const pool = poolOf(url, {}).promise()
    try {
      await work(pool)
    } finally {
      await pool.end()
    }
  },
  'a mysql2 callback pool': async (url, work) => {
    const pool = poolOf(url, {})
    try {
      await work(pool)
    } finally {
      await pool.promise().end()
    }
  },
  'a connection of a pool, before beginTransaction': (url, work) => withConnection(url, async () => {}, work),
  'a connection of a pool, after commit': (url, work) =>
    withConnection(
      url,
      async (run) => {
        await run('start transaction')
        await run('commit')
      },
      work,
    ),
  'a connection whose transaction DDL has committed': (url, work) =>
    withConnection(
      url,
      async (run) => {
        await run('start transaction')
        await run('create table if not exists effects (n int)')
      },
      work,
    ),
  'a Kysely': (url, work) => withKysely(url, work),
  'a connection of Kysely': (url, work) => withKysely(url, (db) => db.connection().execute(work)),
  'a Kysely transaction, after its end': (url, work) =>
    withKysely(url, async (db) => work(await db.transaction().execute(async (tx) => tx))),
}

async function withConnection(
  url: string,
  prepare: (run: (sql: string) => Promise<unknown>) => Promise<void>,
  work: (handle: object) => Promise<void>,
): Promise<void> {
  const pool = poolOf(url, {}).promise()
  try {
    const connection = await pool.getConnection()
    await prepare((sql) => connection.query(sql))
    await work(connection)
    await work(connection.connection)
    connection.release()
  } finally {
    await pool.end()
  }
}

async function withKysely(url: string, work: (db: Kysely<object>) => Promise<void>): Promise<void> {
  const db = new Kysely<object>({ dialect: new MysqlDialect({ pool: poolOf(url, {}) }) })
  try {
    await work(db)
  } finally {
    await db.destroy()
  }
}
