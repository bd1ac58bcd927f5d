/* PostgreSQL migrates in one transaction; MySQL and MariaDB commit at every DDL statement, and may be a cluster. */
import type { AnyRoot, MigrationRootOf, MysqlPoolLike, TransactionLibrary } from '@txbox/core'
import type { TableStore } from '@txbox/core/ports'
import { CHECKING, untilTaken, type Migrating, type RunStatement } from '@txbox/sql/stores'
import { CHECK_TIMEOUT_MS, translatingErrors, type RootAdapter } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { errors } from '../connection/errors.ts'
import { DEFAULT_SCHEMA, quoteSchema } from '../connection/identifiers.ts'
import { migrationStatements } from './migration-statements.ts'
import { migrations } from './schema-revision.ts'

/**
 * Creates the tables, or updates them to the revision of this version of the package. Several services may call
 * `migrate` at the same time: the calls run one after the other, and all but the first find nothing to do. All missing
 * migrations are applied in one transaction: either all of them, or none.
 *
 * @param db your root, a Kysely or a `pg.Pool`, with the privilege to create tables in the schema. The privilege to
 *   create the schema is needed only if the schema does not exist.
 * @returns the names of the migrations that this call has applied, oldest first; empty if there was nothing to do.
 * @throws {InvalidOptionError} for a wrong option.
 * @throws {SchemaError} when the tables are of a later revision than this version knows.
 * @throws {DatabaseUnavailableError} when the database cannot be reached.
 */
export async function migrate<D extends AnyRoot>(
  db: D & MigrationRootOf<D, MysqlPoolLike>,
  options: {
    /** 1 to 63 bytes. @default 'txbox' */
    schema?: string | undefined
    /** Descriptions of libraries that txbox does not know by itself. @default none */
    libraries?: readonly TransactionLibrary[] | undefined
    /** Aborting the signal ends the wait for another migration. */
    signal?: AbortSignal | undefined
  } = {},
): Promise<{ applied: readonly string[] }> {
  return migrations.migrate(db, options, applyMissing)
}

/**
 * Returns the migrations that `migrate` would apply now, oldest first. Changes nothing, and takes no lock.
 *
 * @throws {InvalidOptionError} for a wrong option.
 * @throws {SchemaError} when the tables are of a later revision than this version knows.
 * @throws {DatabaseUnavailableError} when the database cannot be reached.
 */
export async function pendingMigrations<D extends AnyRoot>(
  db: D & MigrationRootOf<D, MysqlPoolLike>,
  options: {
    /** 1 to 63 bytes. @default 'txbox' */
    schema?: string | undefined
    /** Descriptions of libraries that txbox does not know by itself. @default none */
    libraries?: readonly TransactionLibrary[] | undefined
  } = {},
): Promise<readonly { readonly name: string; readonly sql: string }[]> {
  return migrations.pending(db, options)
}

/**
 * Returns the migrations for Kysely's `Migrator`, with names such as `txbox_0001_inbox`. Use a separate Migrator with
 * its own `migrationTableName`, or merge these migrations with yours. They can be combined with `migrate` and the plain
 * files in any order: each is safe to run again.
 *
 * @throws {InvalidOptionError} for a wrong option.
 */
export function migrationProvider(
  options: {
    /** 1 to 63 bytes. @default 'txbox' */
    schema?: string | undefined
  } = {},
): { getMigrations(): Promise<Record<string, { up(db: object): Promise<void> }>> } {
  return migrations.provider(options, applyMigration)
}

/** Returns the SQL of all migrations for a schema, as `txbox migrate --print` shows it. */
export function migrationSql(schema: string): readonly { readonly name: string; readonly sql: string }[] {
  return migrations.texts(quoteSchema('migrationSql', schema))
}

/** The tables of a database, for programs that create them when they start. */
export function tableStore(
  root: RootAdapter,
  db: object,
  options: {
    readonly schema?: string | undefined
    readonly libraries?: readonly TransactionLibrary[] | undefined
  },
): TableStore {
  const schema = quoteSchema('postgres', options.schema ?? DEFAULT_SCHEMA)
  return {
    async state() {
      const revision = await migrations.revision(db, options)
      const { rows } = await translatingErrors(errors, CHECKING, () =>
        root.query(db, migrationStatements(schema).version, [], CHECK_TIMEOUT_MS),
      )
      return { revision, isEmbedded: /PGlite|emscripten/i.test(columns.text(rows[0], 'version')) }
    },
    migrate: async ({ signal }) =>
      (await migrations.migrate(db, { ...options, signal }, applyMissing)).applied,
  }
}

async function applyMissing({ run, place: schema, signal }: Migrating<string>): Promise<readonly string[]> {
  const { commit, rollback } = migrationStatements(schema)
  try {
    await lock(run, schema, signal)
    const missing = await migrations.missing(run, schema)
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

/** Runs the statements of a migration one at a time, because PGlite accepts only one statement in a text. */
async function applyMigration(
  run: RunStatement,
  sql: string,
  schema: string,
  signal?: AbortSignal,
): Promise<void> {
  for (const statement of migrations.statementsOf(sql, schema)) {
    signal?.throwIfAborted()
    // PostgreSQL requires the privilege to create a schema even when IF NOT EXISTS would find that the schema exists.
    if (CREATE_SCHEMA.test(statement) && (await schemaExists(run, schema))) continue
    await run(statement)
  }
}

const CREATE_SCHEMA = /^create schema if not exists /

async function schemaExists(run: RunStatement, schema: string): Promise<boolean> {
  const { rows } = await run(migrationStatements(schema).schemaExists, [schema])
  return columns.flag(rows[0], 'there')
}

/** Opens a transaction, and takes the lock in it, so that the lock also works through a pooler. */
function lock(run: RunStatement, schema: string, signal: AbortSignal | undefined): Promise<void> {
  const sql = migrationStatements(schema)
  return untilTaken(async () => {
    await run(sql.begin)
    const { rows } = await run(sql.lock, [`txbox.migrate ${schema}`])
    if (columns.flag(rows[0], 'locked')) return true
    await run(sql.rollback)
    return false
  }, signal)
}
