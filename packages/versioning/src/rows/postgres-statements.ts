import { sql, type RawBuilder, type SqlBool } from 'kysely'
import type { Instant } from '../rules/instant.ts'

/** The SQL text of PostgreSQL in the statements that Kysely builds on the user's tables. */
export const postgresStatements = {
  textOf: (value: RawBuilder<unknown>) => sql<string>`cast(${value} as text)`,
  // The operator makes the statement fail for a column of text, which has no such operator; there, '10' would be below
  // '9'.
  isBelow: (column: RawBuilder<unknown>, version: bigint) =>
    sql<SqlBool>`${column} < cast(${String(version)} as numeric)`,
  instant: ({ iso }: Instant) => sql`cast(${iso} as timestamptz)`,
  clockPlus: (ms: number) =>
    sql`pg_catalog.clock_timestamp() + cast(${ms} as double precision) * interval '1 millisecond'`,
  rounds,
  columnType: (table: string, column: string) => sql<Readonly<Record<string, unknown>>>`
    select cast(base.typname as text) as type,
      cast(case when type.typbasetype = 0 then attribute.atttypmod else type.typtypmod end as text) as modifier
    from pg_catalog.pg_attribute as attribute
    join pg_catalog.pg_type as type on type.oid = attribute.atttypid
    join pg_catalog.pg_type as base on base.oid = coalesce(nullif(type.typbasetype, 0), type.oid)
    where attribute.attrelid = pg_catalog.to_regclass(${table}) and attribute.attname = ${column}
      and base.typnamespace = cast('pg_catalog' as pg_catalog.regnamespace)`,
} as const

/**
 * Reads the precision of a column from the catalog. All names go through Kysely, because its plugins may change them:
 * the table is found by the type of its rows, and the column name is read as text from the JSON of a row with only that
 * column.
 */
function rounds(table: string, column: string, { decimals }: Instant): RawBuilder<boolean> {
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
