/* PostgreSQL migrates in one transaction; MySQL and MariaDB commit at every DDL statement, and may be a cluster. */
import { setTimeout as pause } from 'node:timers/promises'
import { OptionChecker } from '@txbox/core/internal'
import {
  LOCK_PAUSE_MS,
  kyselyProvider,
  missingMigrations,
  onMigratingConnection,
  pendingOn,
  statementsOf,
  type RunStatement,
} from '@txbox/sql'
import { DEFAULT_SCHEMA, quoteSchema } from './identifiers.ts'
import { migrationStatements } from './migration-statements.ts'
import { MIGRATIONS } from './migrations.gen.ts'
import { migrated } from './schema-revision.ts'

/**
 * Brings the tables to the revision of this version of the package: creates them, or applies what is missing. Services
 * that start together may all call it: they take turns, and all but the first find nothing to do. Runs in one
 * transaction, so that it is done whole or not at all.
 *
 * @param db the root that you have: a Kysely or a `pg.Pool`, with the right to create tables in the schema. The right to
 *   create the schema is needed only where the schema does not exist.
 * @returns the names of the migrations that it applied, oldest first; empty when there was nothing to do.
 * @throws {InvalidOptionError} for a wrong option.
 * @throws {SchemaError} when the tables are of a later revision than this version knows.
 * @throws {DatabaseUnavailableError} when the database cannot be reached.
 */
export async function migrate(
  db: object,
  options: {
    /** 1 to 63 bytes. @default 'txbox' */
    schema?: string | undefined
    /** Gives up waiting for another migration. */
    signal?: AbortSignal | undefined
  } = {},
): Promise<{ applied: readonly string[] }> {
  const check = new OptionChecker('migrate', options).known('schema', 'signal')
  const schema = quoteSchema('migrate', options.schema ?? DEFAULT_SCHEMA)
  const signal = check.signal('signal')
  const applied = await onMigratingConnection(migrated, db, (run) => applyMissing(run, schema, signal))
  return { applied }
}

/**
 * The migrations that `migrate` would apply now, oldest first. Changes nothing, and takes no lock.
 *
 * @throws {InvalidOptionError} for a wrong option.
 * @throws {SchemaError} when the tables are of a later revision than this version knows.
 * @throws {DatabaseUnavailableError} when the database cannot be reached.
 */
export async function pendingMigrations(
  db: object,
  options: {
    /** 1 to 63 bytes. @default 'txbox' */
    schema?: string | undefined
  } = {},
): Promise<readonly { readonly name: string; readonly sql: string }[]> {
  new OptionChecker('pendingMigrations', options).known('schema')
  const schema = quoteSchema('pendingMigrations', options.schema ?? DEFAULT_SCHEMA)
  return pendingOn(migrated, db, schema)
}

/**
 * The migrations for a `Migrator` of Kysely's, under the names `txbox_0001_inbox` and so on. Give them a Migrator and a
 * `migrationTableName` of their own, or merge them with yours. They may follow, or be followed by, `migrate` and the
 * plain files: each is safe to run again.
 *
 * @throws {InvalidOptionError} for a wrong option.
 */
export function migrationProvider(
  options: {
    /** 1 to 63 bytes. @default 'txbox' */
    schema?: string | undefined
  } = {},
): { getMigrations(): Promise<Record<string, { up(db: object): Promise<void> }>> } {
  new OptionChecker('migrationProvider', options).known('schema')
  const schema = quoteSchema('migrationProvider', options.schema ?? DEFAULT_SCHEMA)
  return kyselyProvider(migrated, (run, sql) => applyMigration(run, sql, schema))
}

/** The SQL of all migrations for another schema, as `txbox migrate --print` shows it. */
export function migrationSql(schema: string): readonly { readonly name: string; readonly sql: string }[] {
  const quoted = quoteSchema('migrationSql', schema)
  return MIGRATIONS.map(({ name, sql }) => ({ name, sql: migrated.on(sql, quoted) }))
}

async function applyMissing(
  run: RunStatement,
  schema: string,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> {
  const { commit, rollback } = migrationStatements(schema)
  try {
    await lock(run, schema, signal)
    const missing = await missingMigrations(migrated, run, schema)
    for (const { sql } of missing) {
      await applyMigration(run, sql, schema, signal)
    }
    await run(commit)
    return missing.map((migration) => migration.name)
  } catch (error) {
    await run(rollback).catch(() => undefined)
    throw error
  }
}

/** Runs one statement at a time: PGlite accepts no more in one text. */
async function applyMigration(
  run: RunStatement,
  sql: string,
  schema: string,
  signal?: AbortSignal,
): Promise<void> {
  for (const statement of statementsOf(sql)) {
    signal?.throwIfAborted()
    // PostgreSQL asks for the right to create a schema even where IF NOT EXISTS would find the schema.
    if (CREATE_SCHEMA.test(statement) && (await schemaExists(run, schema))) continue
    await run(migrated.on(statement, schema))
  }
}

const CREATE_SCHEMA = /^create schema if not exists /

async function schemaExists(run: RunStatement, schema: string): Promise<boolean> {
  const { rows } = await run(migrationStatements(schema).schemaExists, [schema])
  return rows[0]?.['there'] === 'true'
}

/** Returns with a transaction open that holds the lock, so that a pooler in front of the server does no harm. */
async function lock(run: RunStatement, schema: string, signal: AbortSignal | undefined): Promise<void> {
  const sql = migrationStatements(schema)
  for (;;) {
    signal?.throwIfAborted()
    await run(sql.begin)
    const { rows } = await run(sql.lock, [`txbox.migrate ${schema}`])
    if (rows[0]?.['locked'] === 'true') return
    await run(sql.rollback)
    await pause(LOCK_PAUSE_MS, undefined, signal === undefined ? {} : { signal })
  }
}
