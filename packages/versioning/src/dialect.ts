import { UnsupportedTransactionError, nameOf } from '@txbox/core'
import { sql, type Kysely, type RawBuilder, type SelectQueryBuilder } from 'kysely'
import type { Instant } from './instant.ts'

/** Tables of any names: the types of the public functions check the names, and Kysely quotes them. */
export type AnyTables = Record<string, Record<string, unknown>>

/** The SQL that differs between PostgreSQL on one side, and MySQL and MariaDB on the other. */
export interface Dialect {
  readonly engine: 'postgres' | 'mysql'
  /** A value as text, so that no type parser and no driver option changes it. */
  textOf(value: RawBuilder<unknown>): RawBuilder<string>
  /** A version as a value that the server compares exactly. */
  version(version: bigint): unknown
  instant(instant: Instant): RawBuilder<unknown>
  /** The server's clock at the time of the statement, plus a duration. */
  clockPlus(ms: number): RawBuilder<unknown>
  /** Whether the column would round this instant, for a statement on an existing row of the table. */
  rounds(table: string, column: string, instant: Instant): RawBuilder<boolean>
  /** Whether the column would round this instant, for a statement without an existing row. */
  roundsInsert(table: string, column: string, instant: Instant): RawBuilder<boolean>
  /** Makes a read wait for a transaction that is changing the row, and see what that transaction committed. */
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
  rounds: postgresRounds,
  roundsInsert: postgresRounds,
  // FOR NO KEY UPDATE does not block inserts of rows that reference this row by a foreign key, just as UPDATE does not.
  lock: (query, strength) => (strength === 'update' ? query.forUpdate() : query.forNoKeyUpdate()),
}

const MYSQL: Dialect = {
  engine: 'mysql',
  textOf: (value) => sql<string>`cast(${value} as char)`,
  // According to the manual, text and a BIGINT are compared as floating-point numbers, which is not exact.
  version: (version) => sql`cast(${String(version)} as decimal(20))`,
  instant: ({ utc }) => sql`cast(${utc} as datetime(6))`,
  clockPlus: (ms) => sql`utc_timestamp(6) + interval ${Math.round(ms * 1000)} microsecond`,
  rounds: (table, column, instant) => mysqlRounds(sql.ref(`${table}.${column}`), instant),
  // The maximum of no values is NULL, with the type of the column.
  roundsInsert: (table, column, instant) => sql<boolean>`
    (select ${mysqlRounds(sql`max(${sql.ref(`${table}.${column}`)})`, instant)} from ${sql.table(table)} where false)`,
  lock: (query) => query.forUpdate(),
}

/**
 * Reads the precision of a column from the catalog. All names go through Kysely, because its plugins may change them:
 * the table is found by the type of its rows, and the column name is read as text from the JSON of a row with only that
 * column.
 */
function postgresRounds(table: string, column: string, { decimals }: Instant): RawBuilder<boolean> {
  return sql<boolean>`coalesce((
    select case
      when coalesce(nullif(type.typbasetype, 0), type.oid) in (
        cast('pg_catalog.timestamptz' as pg_catalog.regtype), cast('pg_catalog.timestamp' as pg_catalog.regtype)
      )
      then case when type.typbasetype = 0 then attribute.atttypmod else type.typtypmod end
        between 0 and ${sql.lit(decimals - 1)}
      else true
    end
    from pg_catalog.pg_type as row_type
    join pg_catalog.pg_attribute as attribute on attribute.attrelid = row_type.typrelid
    join pg_catalog.pg_type as type on type.oid = attribute.atttypid
    where row_type.oid = pg_catalog.pg_typeof(cast(null as ${sql.table(table)}))
      and attribute.attname = (
        select cast(pg_catalog.jsonb_object_keys(pg_catalog.to_jsonb(named)) as pg_catalog.name)
        from (select 1 as ${sql.id(column)}) as named
      )
  ), false)`
}

/**
 * Reads the precision of a column from the length of its text: a DATETIME has 19 characters without decimals, otherwise
 * 20 plus the number of decimals. If the value is null, `coalesce` converts a DATE to the type of the column. A DATE
 * column has 10 characters.
 */
function mysqlRounds(value: RawBuilder<unknown>, { decimals }: Instant): RawBuilder<boolean> {
  const length = decimals === 0 ? 19 : 20 + decimals
  return sql<boolean>`char_length(cast(coalesce(${value}, cast('2000-01-01' as date)) as char)) < ${sql.lit(length)}`
}

/**
 * Returns the dialect of the database that a Kysely uses.
 *
 * @throws {UnsupportedTransactionError} when `db` is not a Kysely, or uses another database.
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

/** Returns the result of {@link Dialect.textOf} as a string: some drivers return text as bytes. */
export function textResult(value: unknown): string | null {
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
