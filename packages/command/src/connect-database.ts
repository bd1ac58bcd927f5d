import type { Finding, InspectionStore } from '@txbox/core/ports'
import { connectedPortsOf, reasonOf } from '@txbox/core/internal'
import {
  migrate as migrateMysql,
  migrationSql as mysqlSql,
  mysql,
  pendingMigrations as pendingMysql,
} from '@txbox/mysql'
import {
  migrate as migratePostgres,
  migrationSql as postgresSql,
  pendingMigrations as pendingPostgres,
  postgres,
} from '@txbox/postgres'
import type { RelayOptions } from '@txbox/relay'
import { UsageError } from './failure.ts'
import type { Installation } from './installation.ts'
import { probeListen } from './listen-probe.ts'
import { loadDriver } from './load-driver.ts'
import { mysqlTls, refuseUnknownTls } from './tls-parameters.ts'
import { visible } from './visible.ts'

/** The time is long enough for a distant database, and short enough for a person who waits for the error. */
const CONNECT_TIMEOUT_MS = 10_000
const CONNECTIONS = 6

/** Without a user: the text of an error shows no part of a URL up to an @, which may be a password. */
const EXPECTED = 'postgres://host/database or mysql://host/database'

/** The options that every command has. */
export interface DatabaseOptions {
  readonly installation: Installation
  readonly database?: string
  /** PostgreSQL only. */
  readonly schema?: string
  /** MySQL and MariaDB only. */
  readonly prefix?: string
}

type Database = RelayOptions['database']

export interface CommandDatabase {
  readonly database: Database
  readonly inspection: InspectionStore
  migrate(): Promise<{ applied: readonly string[] }>
  pending(): Promise<readonly { readonly name: string }[]>
  /** PostgreSQL only: checks whether notifications arrive. */
  probeListen?(): Promise<Finding>
  close(): Promise<void>
}

/** Connects to the database of `--database`. Never shows the URL, which may contain a password. */
export async function connectDatabase(options: DatabaseOptions, name: string): Promise<CommandDatabase> {
  if (options.database === undefined) {
    throw new UsageError(`no database: pass --database ${EXPECTED}, or set DATABASE_URL.`)
  }
  return engineOf(options) === 'mysql'
    ? connectMysql(options.database, options, name)
    : connectPostgres(options.database, options, name)
}

/** Returns the SQL of all migrations. Without a database, the SQL is for PostgreSQL, unless there is a prefix. */
export function migrationSql(options: DatabaseOptions): readonly { readonly sql: string }[] {
  return engineOf(options) === 'mysql'
    ? mysqlSql(options.prefix ?? 'txbox_')
    : postgresSql(options.schema ?? 'txbox')
}

function engineOf({ database, schema, prefix }: DatabaseOptions): 'postgres' | 'mysql' {
  const engine =
    database === undefined ? (prefix === undefined ? 'postgres' : 'mysql') : engineOfUrl(database)
  if (engine === 'mysql' && schema !== undefined) {
    throw new UsageError(
      '--schema is for PostgreSQL; on MySQL and MariaDB, use --prefix for the names of the tables.',
    )
  }
  if (engine === 'postgres' && prefix !== undefined) {
    throw new UsageError(
      '--prefix is for MySQL and MariaDB; on PostgreSQL, use --schema for the schema of the tables.',
    )
  }
  return engine
}

function engineOfUrl(url: string): 'postgres' | 'mysql' {
  if (!isWellFormedUrl(url)) {
    throw new UsageError(
      `--database is not a URL; expected ${EXPECTED}, with special characters percent-encoded.`,
    )
  }
  const { protocol, searchParams } = new URL(url)
  // A driver writes parameters that it does not know to standard error unchanged.
  for (const name of searchParams.keys()) {
    if (!/^[\w.-]{1,100}$/.test(name)) {
      throw new UsageError(
        `--database has a parameter '${visible(name.slice(0, 100))}', which no driver knows.`,
      )
    }
  }
  if (/^postgres(ql)?:$/.test(protocol)) return 'postgres'
  if (/^(mysql|mariadb):$/.test(protocol)) return 'mysql'
  throw new UsageError(`--database ${protocol}// is not available in this version; expected ${EXPECTED}.`)
}

function isWellFormedUrl(url: string): boolean {
  if (!URL.canParse(url) || !/^[a-z][a-z0-9+.-]*:\/\//i.test(url)) return false
  const { username, password, pathname } = new URL(url)
  try {
    for (const part of [username, password, pathname]) decodeURIComponent(part)
    return true
  } catch {
    return false
  }
}

/** Finds errors in the rest of the URL with the driver's own parser, before a connection is opened. */
function checked<T>(make: () => T): T {
  try {
    return make()
  } catch (error) {
    throw new UsageError(`--database cannot be used: ${reasonOf(error)}`)
  }
}

async function connectPostgres(
  url: string,
  { installation, schema }: DatabaseOptions,
  name: string,
): Promise<CommandDatabase> {
  refuseUnknownTls(url)
  const { Client, Pool } = await loadDriver(installation, 'pg')
  checked(() => new Client({ connectionString: url }))
  const pool = new Pool({
    connectionString: url,
    max: CONNECTIONS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: `txbox ${name}`,
  })
  // The pool replaces a connection that breaks while idle. If that fails, the next query reports the error.
  pool.on('error', () => undefined)
  const database = postgres({ db: pool, schema })
  return {
    database,
    inspection: connectedPortsOf(name, database).inspection(),
    migrate: () => migratePostgres(pool, { schema }),
    pending: () => pendingPostgres(pool, { schema }),
    probeListen: () => probeListen(Client, url),
    close: () => pool.end(),
  }
}

async function connectMysql(
  url: string,
  { installation, prefix }: DatabaseOptions,
  name: string,
): Promise<CommandDatabase> {
  const { pathname } = new URL(url)
  if (pathname.length < 2)
    throw new UsageError(
      '--database does not contain the name of a database; expected mysql://host/database.',
    )
  const address = mysqlTls(url)
  const { createPool } = await loadDriver(installation, 'mysql2')
  const pool = checked(() =>
    createPool({
      uri: address.url.replace(/^mariadb:/, 'mysql:'),
      ...(address.tls === undefined ? {} : { ssl: address.tls }),
      connectionLimit: CONNECTIONS,
      connectTimeout: CONNECT_TIMEOUT_MS,
    }),
  ).promise()
  const database = mysql({ db: pool, prefix })
  return {
    database,
    inspection: connectedPortsOf(name, database).inspection(),
    migrate: () => migrateMysql(pool, { prefix }),
    pending: () => pendingMysql(pool, { prefix }),
    close: () => pool.end(),
  }
}
