/*
 * On PostgreSQL, a schema contains the tables. On MySQL and MariaDB, the tables have a prefix, and the query for the
 * revision also asks what the server is.
 */
import { Migrations, type RunStatement } from '@txbox/sql/stores'
import { columns } from '../connection/columns.ts'
import { errors } from '../connection/errors.ts'
import { DEFAULT_SCHEMA, quoteSchema } from '../connection/identifiers.ts'
import { migrationStatements } from './migration-statements.ts'
import { MIGRATIONS } from './migrations.gen.ts'

/** A place is a quoted schema. */
export const migrations = new Migrations<string>({
  engine: 'postgres',
  errors,
  migrations: MIGRATIONS,
  option: 'schema',
  placeOf: (call, schema) => quoteSchema(call, schema ?? DEFAULT_SCHEMA),
  startOf: (schema) => `${schema.slice(1, -1).replaceAll('""', '"')}.`,
  nameOf: (schema) => `in schema ${schema}`,
  async applied(run, schema) {
    const { rows } = await run(migrationStatements(schema).tableExists, [`${schema}.migrations`])
    return columns.flag(rows[0], 'there') ? appliedMigrations(run, schema) : new Set()
  },
  // In the migration files, the default name occurs before a dot and after CREATE SCHEMA.
  on: (sql, schema) =>
    sql.replaceAll(/\btxbox(?=\.)|(?<=create schema if not exists )txbox\b/g, () => schema),
})

/** @throws {SchemaError} when the tables have an earlier or later revision than this version of the package. */
export async function checkRevision(run: RunStatement, schema: string): Promise<void> {
  migrations.assertRevision(await appliedMigrations(run, schema), schema)
}

async function appliedMigrations(run: RunStatement, schema: string): Promise<ReadonlySet<number>> {
  const { rows } = await run(migrationStatements(schema).applied)
  return new Set(rows.map((row) => columns.number(row, 'number')))
}
