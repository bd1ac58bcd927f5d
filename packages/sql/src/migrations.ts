import { setTimeout as pause } from 'node:timers/promises'
import { SchemaError } from '@txbox/core'
import { translatingErrors, type DatabaseErrors } from './database-errors.ts'
import { CHECK_TIMEOUT_MS } from './deadline.ts'
import type { Engine, RootAdapter, SqlResult } from './adapters.ts'
import type { Resolver } from './resolver.ts'

/** The pause before the next attempt to get a lock that another service holds. */
const LOCK_PAUSE_MS = 100

export const CHECKING = 'checking the tables'

/** A migration file. */
export interface Migration {
  readonly number: number
  readonly name: string
  readonly sql: string
}

/** Runs one statement. Throws errors that can be shown to the user. */
export type RunStatement = (text: string, values?: readonly unknown[]) => Promise<SqlResult>

/** The migrations of one database package. `P` is the type of the place of the tables: a schema or a prefix. */
export interface MigratedDatabase<P> {
  readonly engine: Engine
  /** The name of the npm package. */
  readonly packageName: string
  readonly errors: DatabaseErrors
  readonly migrations: readonly Migration[]
  /** Returns the name of a place for error messages. */
  readonly nameOf: (place: P) => string
  /** Returns the numbers of the applied migrations; empty if there are no tables. */
  applied(run: RunStatement, place: P): Promise<ReadonlySet<number>>
  /** Returns the SQL of a migration file for the tables of a place. */
  readonly on: (sql: string, place: P) => string
}

/** Runs the work of `migrate` on a connection of the root. */
export async function onMigratingConnection<R>(
  { errors }: Pick<MigratedDatabase<never>, 'errors'>,
  resolver: Resolver,
  db: object,
  work: (run: RunStatement, root: RootAdapter) => Promise<R>,
): Promise<R> {
  const root = resolver.root('migrate', db)
  return translatingErrors(errors, 'migrating the tables', async () => {
    const { query, release } = await root.connect(db)
    let broken = true
    try {
      const result = await work((text, values = []) => query(text, values), root)
      broken = false
      return result
    } finally {
      release(broken)
    }
  })
}

/** Returns the missing migrations with their SQL, for `pendingMigrations`. */
export async function pendingOn<P>(
  database: MigratedDatabase<P>,
  resolver: Resolver,
  db: object,
  place: P,
  check: (run: RunStatement) => Promise<void> = async () => undefined,
): Promise<readonly { readonly name: string; readonly sql: string }[]> {
  const root = resolver.root('pendingMigrations', db)
  const run: RunStatement = (text, values = []) => root.query(db, text, values, CHECK_TIMEOUT_MS)
  return translatingErrors(database.errors, CHECKING, async () => {
    await check(run)
    return sqlOf(database, await missingMigrations(database, run, place), place)
  })
}

/** Returns a provider for Kysely's `Migrator`. `apply` runs one migration file. */
export function kyselyProvider<P>(
  { migrations }: MigratedDatabase<P>,
  resolver: Resolver,
  apply: (run: RunStatement, sql: string) => Promise<void>,
): { getMigrations(): Promise<Record<string, { up(db: object): Promise<void> }>> } {
  const named = migrations.map(({ name, sql }) => [
    `txbox_${name}`,
    {
      async up(db: object): Promise<void> {
        const { driver, connection } = await resolver.transaction(db)
        await apply((text, values = []) => driver.query(connection, text, values), sql)
      },
    },
  ])
  return { getMigrations: async () => Object.fromEntries(named) }
}

/** Returns the SQL of migrations for the tables of a place. */
export function sqlOf<P>(
  { on }: MigratedDatabase<P>,
  migrations: readonly Migration[],
  place: P,
): readonly { readonly name: string; readonly sql: string }[] {
  return migrations.map(({ name, sql }) => ({ name, sql: on(sql, place) }))
}

/** Tries to take a lock until it is taken, or the signal is aborted. */
export async function untilTaken(
  take: () => Promise<boolean>,
  signal: AbortSignal | undefined,
): Promise<void> {
  for (;;) {
    signal?.throwIfAborted()
    if (await take()) return
    await pause(LOCK_PAUSE_MS, undefined, signal === undefined ? {} : { signal })
  }
}

/**
 * Returns the migrations that are not applied yet.
 *
 * @throws {SchemaError} when the tables have a later revision than the package knows.
 */
export async function missingMigrations<P>(
  database: MigratedDatabase<P>,
  run: RunStatement,
  place: P,
): Promise<readonly Migration[]> {
  const applied = await database.applied(run, place)
  refuseLater(database, applied, place)
  return database.migrations.filter(({ number }) => !applied.has(number))
}

/**
 * Checks that the tables have the revision of the package.
 *
 * @throws {SchemaError} when the tables have an earlier or later revision than the package.
 */
export function assertRevision<P>(
  database: MigratedDatabase<P>,
  applied: ReadonlySet<number>,
  place: P,
): void {
  refuseLater(database, applied, place)
  const missing = database.migrations.filter(({ number }) => !applied.has(number))
  if (missing.length === 0) return
  throw new SchemaError(
    `The tables ${database.nameOf(place)} lack ${missing.map(({ name }) => name).join(', ')}. Run ` +
      "'npx txbox migrate', or call migrate(db).",
  )
}

function refuseLater<P>(
  { packageName, migrations, nameOf }: MigratedDatabase<P>,
  applied: ReadonlySet<number>,
  place: P,
): void {
  const latest = Math.max(0, ...applied)
  const known = migrations.at(-1)!.number
  if (latest <= known) return
  throw new SchemaError(
    `The tables ${nameOf(place)} have revision ${latest}; this version of ${packageName} knows revisions up to ` +
      `${known}. Upgrade the package.`,
  )
}

/** Splits a migration file of txbox into statements. A statement must not contain a semicolon except at its end. */
export function statementsOf(sql: string): readonly string[] {
  return sql
    .replaceAll(/^\s*--.*$/gm, '')
    .split(/;\s*$/m)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '')
}
