import { UnsupportedTransactionError, nameOf } from '@txbox/core'
import { sql, type Kysely, type RawBuilder, type SelectQueryBuilder } from 'kysely'
import type { Instant } from './instant.ts'

/** Any tables: names are checked by the types of the public functions, and quoted by Kysely. */
export type AnyTables = Record<string, Record<string, unknown>>

/** What PostgreSQL on one side, MySQL and MariaDB on the other say differently. */
export interface Dialect {
  readonly engine: 'postgres' | 'mysql'
  /** A value as text, so that no type parser and no option of a driver has a say in it. */
  textOf(value: RawBuilder<unknown>): RawBuilder<string>
  /** A version as a value that compares exactly. */
  version(version: bigint): unknown
  instant(instant: Instant): RawBuilder<unknown>
  /** The server's clock at the statement, and a duration later. */
  clockPlus(ms: number): RawBuilder<unknown>
  /** Would the column round this instant? Where the server can be asked for it. */
  rounds(column: RawBuilder<unknown>, instant: Instant): RawBuilder<boolean>
  /** Makes a read wait for whoever is changing the row, and see what he has committed. */
  lock<O>(
    query: SelectQueryBuilder<AnyTables, string, O>,
    strength: 'no key update' | 'update',
  ): SelectQueryBuilder<AnyTables, string, O>
}

const POSTGRES: Dialect = {
  engine: 'postgres',
  textOf: (value) => sql<string>`cast(${value} as text)`,
  version: String,
  instant: ({ iso }) => sql`cast(${iso} as timestamptz)`,
  clockPlus: (ms) =>
    sql`pg_catalog.clock_timestamp() + cast(${ms} as double precision) * interval '1 millisecond'`,
  rounds: () => sql<boolean>`false`,
  // Foreign keys that point to the row do not wait for it, as they do not for an UPDATE.
  lock: (query, strength) => (strength === 'update' ? query.forUpdate() : query.forNoKeyUpdate()),
}

const MYSQL: Dialect = {
  engine: 'mysql',
  textOf: (value) => sql<string>`cast(${value} as char)`,
  // Of text and a BIGINT the manual says only that they are compared as floating-point numbers.
  version: (version) => sql`cast(${String(version)} as decimal(20))`,
  instant: ({ utc }) => sql`cast(${utc} as datetime(6))`,
  clockPlus: (ms) => sql`utc_timestamp(6) + interval ${Math.round(ms * 1000)} microsecond`,
  // As text a DATETIME has as many decimals as its column: 19 characters without, 20 and their number with.
  rounds: (column, { decimals }) =>
    decimals === 0
      ? sql<boolean>`false`
      : sql<boolean>`char_length(cast(${column} as char)) < ${20 + decimals}`,
  lock: (query) => query.forUpdate(),
}

/**
 * Which database a Kysely speaks to.
 *
 * @throws {UnsupportedTransactionError} when it is no Kysely, or one of another database.
 */
export function dialectOf(where: string, db: unknown): Dialect {
  const adapter = isKysely(db) ? db.getExecutor().adapter : undefined
  if (adapter?.supportsReturning === true && adapter.supportsTransactionalDdl === true) return POSTGRES
  if (adapter?.supportsReturning === false && adapter.supportsOutput !== true) return MYSQL
  throw new UnsupportedTransactionError(
    `${where}: expected a Kysely transaction on PostgreSQL, MySQL or MariaDB, not ` +
      `${adapter === undefined ? nameOf(db) : `one with a ${adapter.constructor.name}`}. Nothing was written.`,
  )
}

/** What came back for {@link Dialect.textOf}: some drivers leave text as bytes. */
export function cameBackAs(value: unknown): string | null {
  return Buffer.isBuffer(value) ? value.toString() : (value as string | null)
}

function isKysely(db: unknown): db is Kysely<AnyTables> {
  return (
    typeof db === 'object' &&
    db !== null &&
    typeof Reflect.get(db, 'getExecutor') === 'function' &&
    typeof Reflect.get(db, 'updateTable') === 'function'
  )
}
