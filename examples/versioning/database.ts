import { createPool } from 'mysql2'
import { Pool } from 'pg'
import { Kysely, MysqlDialect, PostgresDialect, sql, type ColumnType } from 'kysely'
import type { ConnectedDatabase } from 'txbox'
import * as onMysql from 'txbox/mysql'
import * as onPostgres from 'txbox/postgres'
import type { Transaction } from 'kysely'

export interface Tables {
  example_orders: {
    id: string
    status: 'placed' | 'paid' | 'packed' | 'shipped' | 'delivered'
    /** All changes so far, in the order in which they were applied. */
    history: string
    version: number
    changed_at: ColumnType<Date | string | null, null, never>
  }
}

export interface Opened {
  readonly db: Kysely<Tables>
  readonly database: ConnectedDatabase<Transaction<Tables>>
}

/** The database of a URL: `postgres://…` or `mysql://…`, with txbox's tables and an empty table of orders. */
export async function openDatabase(url: string): Promise<Opened> {
  const opened = url.startsWith('mysql:') ? await openMysql(url) : await openPostgres(url)
  const { db } = opened
  const time = url.startsWith('mysql:') ? sql`datetime(6)` : sql`timestamptz`
  await sql`drop table if exists example_orders`.execute(db)
  await sql`
    create table example_orders (
      id varchar(50) primary key, status varchar(20) not null, history varchar(200) not null, version integer not null,
      changed_at ${time}
    )`.execute(db)
  return opened
}

async function openPostgres(url: string): Promise<Opened> {
  const pool = new Pool({ connectionString: url, max: 6 })
  pool.on('error', console.error)
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
  await onPostgres.migrate(db)
  return { db, database: onPostgres.postgres({ db }) }
}

async function openMysql(url: string): Promise<Opened> {
  const db = new Kysely<Tables>({
    dialect: new MysqlDialect({ pool: createPool({ uri: url, connectionLimit: 6 }) }),
  })
  await onMysql.migrate(db)
  return { db, database: onMysql.mysql({ db }) }
}
