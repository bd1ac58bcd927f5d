import { SchemaError } from '@txbox/core'
import type { SqlResult } from '@txbox/sql'
import { MIGRATIONS } from './migrations.gen.ts'

/** Runs one statement; throws what the caller wants to see. */
export type RunStatement = (text: string, values: readonly unknown[]) => Promise<SqlResult>

/** The numbers of the migrations that a schema has had. */
export async function appliedMigrations(run: RunStatement, schema: string): Promise<ReadonlySet<number>> {
  const { rows } = await run(`select number::text as number from ${schema}.migrations`, [])
  return new Set(rows.map((row) => Number(row['number'])))
}

/** @throws {SchemaError} when the tables are of a later revision than this version of the package knows. */
export function refuseLater(applied: ReadonlySet<number>, schema: string): void {
  const latest = Math.max(0, ...applied)
  const known = MIGRATIONS.at(-1)!.number
  if (latest <= known) return
  throw new SchemaError(
    `The tables in schema ${schema} are of revision ${latest}; this version of @txbox/postgres knows revisions up to ` +
      `${known}. Upgrade the package.`,
  )
}

/** @throws {SchemaError} when the tables are of an earlier or later revision than this version of the package. */
export async function checkRevision(run: RunStatement, schema: string): Promise<void> {
  const applied = await appliedMigrations(run, schema)
  refuseLater(applied, schema)
  const missing = MIGRATIONS.filter((migration) => !applied.has(migration.number))
  if (missing.length === 0) return
  throw new SchemaError(
    `The tables in schema ${schema} lack ${missing.map((migration) => migration.name).join(', ')}. Run ` +
      "'npx txbox migrate', or call migrate(db).",
  )
}
