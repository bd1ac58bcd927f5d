/* MySQL and MariaDB commit at every DDL statement, and may be a cluster; PostgreSQL migrates in one transaction. */
import {
  SchemaError,
  isTxboxError,
  type AnyRoot,
  type MigrationRootOf,
  type PostgresPoolLike,
  type TransactionLibrary,
} from '@txbox/core'
import type { TableStore } from '@txbox/core/ports'
import { pause } from '@txbox/core/internal'
import type { Migrating } from '@txbox/sql/stores'
import { isConflict, numberOf, translate } from '../connection/errors.ts'
import { shortTransactionStatements } from '../connection/short-transaction-statements.ts'
import { tablesOf, type Tables } from '../connection/identifiers.ts'
import { isCluster, lockCluster, lockServer, type MigrationLock } from './migration-lock.ts'
import { migrationStatements } from './migration-statements.ts'
import { migrations } from './schema-revision.ts'

/** How often `migrate` checks again for missing migrations, on a cluster, after a statement has failed. */
const CLUSTER_ATTEMPTS = 20
const LONGEST_PAUSE_MS = 300

/**
 * Creates the tables, or updates them to the revision of this version of the package. Several services may call
 * `migrate` at the same time, even on different nodes of a cluster: the calls run one after the other, and all but the
 * first find nothing to do. MySQL commits at every DDL statement: if a migration fails halfway, the next call completes
 * it. On a cluster, if a caller dies, the others wait for up to 30 seconds.
 *
 * @param db your root, a Kysely or a `mysql2` promise pool, with the privilege to create tables.
 * @returns the names of the migrations that this call has applied, oldest first; empty if there was nothing to do.
 * @throws {InvalidOptionError} for a wrong option, or a server that is not supported.
 * @throws {SchemaError} when the tables are of a later revision than this version knows.
 * @throws {DatabaseUnavailableError} when the database cannot be reached.
 */
export async function migrate<D extends AnyRoot>(
  db: D & MigrationRootOf<D, PostgresPoolLike>,
  options: {
    /** The prefix of the names of txbox's tables, 1 to 51 characters, not ending with `local_`. @default 'txbox_' */
    prefix?: string | undefined
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
 * @throws {InvalidOptionError} for a wrong option, or a server that is not supported.
 * @throws {SchemaError} when the tables are of a later revision than this version knows.
 * @throws {DatabaseUnavailableError} when the database cannot be reached.
 */
export async function pendingMigrations<D extends AnyRoot>(
  db: D & MigrationRootOf<D, PostgresPoolLike>,
  options: {
    /** The prefix of the names of txbox's tables, 1 to 51 characters, not ending with `local_`. @default 'txbox_' */
    prefix?: string | undefined
    /** Descriptions of libraries that txbox does not know by itself. @default none */
    libraries?: readonly TransactionLibrary[] | undefined
  } = {},
): Promise<readonly { readonly name: string; readonly sql: string }[]> {
  return migrations.pending(db, options)
}

/**
 * Returns the migrations for Kysely's `Migrator`, with names such as `txbox_0001_inbox`. Use a separate Migrator with
 * its own `migrationTableName`, or merge these migrations with yours. They can be combined with `migrate` and the plain
 * files in any order: each is safe to run again, even after a failure halfway.
 *
 * @throws {InvalidOptionError} for a wrong option.
 */
export function migrationProvider(
  options: {
    /** The prefix of the names of txbox's tables, 1 to 51 characters, not ending with `local_`. @default 'txbox_' */
    prefix?: string | undefined
  } = {},
): { getMigrations(): Promise<Record<string, { up(db: object): Promise<void> }>> } {
  return migrations.provider(options, async (run, sql, tables) => {
    for (const statement of migrations.statementsOf(sql, tables)) await run(statement)
  })
}

/** Returns the SQL of all migrations for a prefix, as `txbox migrate --print` shows it. */
export function migrationSql(prefix: string): readonly { readonly name: string; readonly sql: string }[] {
  return migrations.texts(tablesOf('migrationSql', prefix))
}

/** The tables of a database, for programs that create them when they start. */
export function tableStore(
  db: object,
  options: {
    readonly prefix?: string | undefined
    readonly libraries?: readonly TransactionLibrary[] | undefined
  },
): TableStore {
  return {
    async state({ waits, signal }) {
      const apart = waits ? waitForOthers : undefined
      const revision = await migrations.revision(db, { ...options, signal }, apart)
      return { revision, isEmbedded: false }
    },
    migrate: async ({ signal }) =>
      (await migrations.migrate(db, { ...options, signal }, applyMissing)).applied,
  }
}

/** Resolves when no other process migrates. */
async function waitForOthers(work: Migrating<Tables>): Promise<void> {
  const lock = (await isCluster(work.run, work.place)) ? await lockCluster(work) : await lockServer(work)
  await lock.release()
}

async function applyMissing(work: Migrating<Tables>): Promise<readonly string[]> {
  const { liftRowLimit, restoreRowLimit } = shortTransactionStatements
  await work.run(liftRowLimit)
  try {
    return await applyInTurn(work)
  } finally {
    await work.run(restoreRowLimit).catch(() => undefined)
  }
}

async function applyInTurn(work: Migrating<Tables>): Promise<readonly string[]> {
  const { run, place: tables, signal } = work
  const applied: string[] = []
  if (!(await isCluster(run, tables))) {
    await applyWhileLocked(work, await lockServer(work), applied)
    return applied
  }
  for (let attempt = 1; ; attempt++) {
    try {
      await applyWhileLocked(work, await lockCluster(work), applied)
      return applied
    } catch (error) {
      // A change on another node can make a statement fail here in many ways. The missing migrations show what is left
      // to do.
      if (attempt === CLUSTER_ATTEMPTS || !mayComeFromAnotherNode(error)) throw error
      await run(migrationStatements(tables).rollback)
      await pause(Math.random() * LONGEST_PAUSE_MS, signal)
    }
  }
}

async function applyWhileLocked(
  { run, place: tables, signal }: Migrating<Tables>,
  lock: MigrationLock,
  applied: string[],
): Promise<void> {
  try {
    for (const { name, sql } of await migrations.missing(run, tables)) {
      for (const statement of migrations.statementsOf(sql, tables)) {
        signal?.throwIfAborted()
        await lock.confirm()
        await run(statement)
      }
      applied.push(name)
    }
    // The COMMIT is needed if autocommit is off.
    await run(migrationStatements(tables).commit)
  } finally {
    await lock.release().catch(() => undefined)
  }
}

/** Returns whether the server answered with an error that another attempt may avoid. */
function mayComeFromAnotherNode(error: unknown): boolean {
  if (isTxboxError(error)) return isConflict(error)
  if (numberOf(error) === undefined) return false
  const translated = translate(error, 'migrating the tables')
  // Most DDL errors have no txbox error class. A table that another node has just created may be missing here for a
  // moment.
  return !isTxboxError(translated) || translated instanceof SchemaError || isConflict(translated)
}
