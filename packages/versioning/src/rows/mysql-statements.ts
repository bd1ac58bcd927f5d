import { sql, type RawBuilder, type SqlBool } from 'kysely'
import type { Instant } from '../rules/instant.ts'

/** The SQL text of MySQL and MariaDB in the statements that Kysely builds on the user's tables. */
export const mysqlStatements = {
  textOf: (value: RawBuilder<unknown>) => sql<string>`cast(${value} as char)`,
  // According to the manual, text and a BIGINT are compared as floating-point numbers, which is not exact.
  version: (version: bigint) => sql`cast(${String(version)} as decimal(20))`,
  isBelow: (column: RawBuilder<unknown>, version: bigint) =>
    sql<SqlBool>`${column} < cast(${String(version)} as decimal(20))`,
  instant: ({ utc }: Instant) => sql`cast(${utc} as datetime(6))`,
  clockPlus: (ms: number) => sql`utc_timestamp(6) + interval ${Math.round(ms * 1000)} microsecond`,
  rounds: (table: string, column: string, instant: Instant) => rounds(sql.ref(`${table}.${column}`), instant),
  // The maximum of no values is NULL, with the type of the column.
  roundsInsert: (table: string, column: string, instant: Instant) => sql<boolean>`
    (select ${rounds(sql`max(${sql.ref(`${table}.${column}`)})`, instant)} from ${sql.table(table)} where false)`,

  hasKey: (key: Readonly<Record<string, unknown>>) =>
    sql<SqlBool>`${sql.join(
      Object.entries(key).map(([name, value]) => sql`${sql.ref(name)} = ${value}`),
      sql` and `,
    )}`,

  /** Always true. Sets LAST_INSERT_ID, which the server evaluates only for existing rows because it is not constant. */
  marked: (condition: RawBuilder<SqlBool>, then: bigint, otherwise: bigint) =>
    sql<SqlBool>`last_insert_id(if(${condition}, ${sql.lit(then)}, ${sql.lit(otherwise)}))`,

  both: (one: RawBuilder<SqlBool>, other: RawBuilder<SqlBool>) => sql<SqlBool>`${one} and ${other}`,
  assignedIf: (condition: RawBuilder<SqlBool>, value: RawBuilder<unknown>, column: string) =>
    sql`if(${condition}, ${value}, ${sql.ref(column)})`,

  columnType: (schema: string | undefined, table: string, column: string) => sql<
    Readonly<Record<string, unknown>>
  >`
    select cast(data_type as char) as type, cast(column_type as char) as declared,
      cast(numeric_precision as char) as digits, cast(numeric_scale as char) as scale
    from information_schema.columns
    where table_schema = coalesce(${schema ?? null}, database()) and table_name = ${table} and column_name = ${column}`,

  indexesOf: (table: RawBuilder<unknown>) => sql<Readonly<Record<string, unknown>>>`show index from ${table}`,
} as const

/**
 * Reads the precision of a column from the length of its text: a DATETIME has 19 characters without decimals, otherwise
 * 20 plus the number of decimals. If the value is null, `coalesce` converts a DATE to the type of the column. A DATE
 * column has 10 characters.
 */
function rounds(value: RawBuilder<unknown>, { decimals }: Instant): RawBuilder<boolean> {
  const length = decimals === 0 ? 19 : 20 + decimals
  return sql<boolean>`char_length(cast(coalesce(${value}, cast('2000-01-01' as date)) as char)) < ${sql.lit(length)}`
}
