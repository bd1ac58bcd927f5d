import { setTimeout as pause } from 'node:timers/promises'
import { OptionChecker } from '@txbox/core'
import { recogniseHandle, recogniseRoot, type OwnConnection } from '@txbox/sql'
import { translate } from './errors.ts'
import { DEFAULT_SCHEMA, quoteSchema } from './identifiers.ts'
import { MIGRATIONS } from './migrations.gen.ts'
import { appliedMigrations, refuseLater, type RunStatement } from './schema-revision.ts'

/** How long to wait before asking again for the lock that another starting service holds. */
const LOCK_PAUSE_MS = 100

/** Looking at the tables takes no locks: nobody should wait longer than this for an error. */
const CHECK_TIMEOUT_MS = 30_000

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
  const root = recogniseRoot('migrate', db, 'postgres')
  let connection: OwnConnection | undefined
  let broken = true
  try {
    connection = await root.connect(db)
    const applied = await applyMissing(connection.query, schema, signal)
    broken = false
    return { applied }
  } catch (error) {
    throw translate(error, 'migrating the tables')
  } finally {
    connection?.release(broken)
  }
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
  const root = recogniseRoot('pendingMigrations', db, 'postgres')
  try {
    const missing = await missingMigrations(
      (text, values) => root.query(db, text, values, CHECK_TIMEOUT_MS),
      schema,
    )
    return missing.map(({ name, sql }) => ({ name, sql: inSchema(sql, schema) }))
  } catch (error) {
    throw translate(error, 'looking at the tables')
  }
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
  const migrations = MIGRATIONS.map(({ name, sql }) => [
    `txbox_${name}`,
    {
      async up(db: object): Promise<void> {
        const adapter = recogniseHandle(db, 'postgres')
        await applyMigration((text, values) => adapter.query(db, text, values), sql, schema)
      },
    },
  ])
  return { getMigrations: async () => Object.fromEntries(migrations) }
}

/** The SQL of all migrations for another schema, as `txbox migrate --print` shows it. */
export function migrationSql(schema: string): readonly { readonly name: string; readonly sql: string }[] {
  const quoted = quoteSchema('migrationSql', schema)
  return MIGRATIONS.map(({ name, sql }) => ({ name, sql: inSchema(sql, quoted) }))
}

async function applyMissing(
  run: RunStatement,
  schema: string,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> {
  try {
    await lock(run, schema, signal)
    const missing = await missingMigrations(run, schema)
    for (const { sql } of missing) {
      await applyMigration(run, sql, schema, signal)
    }
    await run('commit', [])
    return missing.map((migration) => migration.name)
  } catch (error) {
    await run('rollback', []).catch(() => undefined)
    throw error
  }
}

/** One statement at a time: PGlite takes no more in one text. */
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
    await run(inSchema(statement, schema), [])
  }
}

const CREATE_SCHEMA = /^create schema if not exists /

async function schemaExists(run: RunStatement, schema: string): Promise<boolean> {
  const { rows } = await run('select (pg_catalog.to_regnamespace($1) is not null)::text as there', [schema])
  return rows[0]?.['there'] === 'true'
}

async function missingMigrations(run: RunStatement, schema: string): Promise<typeof MIGRATIONS> {
  const { rows } = await run('select (pg_catalog.to_regclass($1) is not null)::text as there', [
    `${schema}.migrations`,
  ])
  const applied = rows[0]?.['there'] === 'true' ? await appliedMigrations(run, schema) : new Set<number>()
  refuseLater(applied, schema)
  return MIGRATIONS.filter((migration) => !applied.has(migration.number))
}

/** Leaves with a transaction open that holds the lock, so that a pooler between us and the server does no harm. */
async function lock(run: RunStatement, schema: string, signal: AbortSignal | undefined): Promise<void> {
  for (;;) {
    signal?.throwIfAborted()
    await run('begin', [])
    const { rows } = await run(
      'select pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))::text as locked',
      [`txbox.migrate ${schema}`],
    )
    if (rows[0]?.['locked'] === 'true') return
    await run('rollback', [])
    await pause(LOCK_PAUSE_MS, undefined, signal === undefined ? {} : { signal })
  }
}

/** The statements of a migration file of txbox. These statements hold no semicolon except at their end. */
function statementsOf(sql: string): readonly string[] {
  return sql
    .replaceAll(/^\s*--.*$/gm, '')
    .split(/;\s*$/m)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '')
}

/** The files carry the default name; it stands before a dot, or after CREATE SCHEMA. */
function inSchema(sql: string, schema: string): string {
  return sql.replaceAll(/\btxbox(?=\.)|(?<=create schema if not exists )txbox\b/g, () => schema)
}
