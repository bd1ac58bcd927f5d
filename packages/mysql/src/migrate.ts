import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { OptionChecker } from '@txbox/core'
import { recogniseHandle, recogniseRoot, type OwnConnection } from '@txbox/handles'
import { NO_TABLE, numberOf, translate } from './errors.ts'
import { DEFAULT_PREFIX, tablesOf, type Tables } from './identifiers.ts'
import { fill, literal, textOf } from './literals.ts'
import { MIGRATIONS } from './migrations.gen.ts'
import { checkEngine, inspect, refuseLater, type RunStatement } from './schema-revision.ts'

/** How long to wait before asking again for the lock that another starting service holds. */
const LOCK_PAUSE_MS = 100

/** Looking at the tables takes no locks: nobody should wait longer than this for an error. */
const CHECK_TIMEOUT_MS = 30_000

/**
 * Brings the tables to the revision of this version of the package: creates them, or applies what is missing. Services
 * that start together may all call it: they take turns, and all but the first find nothing to do. MySQL commits at
 * every DDL statement: what breaks off halfway is done when it is called again.
 *
 * @param db the root that you have: a Kysely or a `mysql2` promise pool, with the right to create tables.
 * @returns the names of the migrations that it applied, oldest first; empty when there was nothing to do.
 * @throws {InvalidOptionError} for a wrong option, or a server that is not supported.
 * @throws {SchemaError} when the tables are of a later revision than this version knows.
 * @throws {DatabaseUnavailableError} when the database cannot be reached.
 */
export async function migrate(
  db: object,
  options: {
    /** What the names of the tables begin with, 1 to 53 characters. @default 'txbox_' */
    prefix?: string | undefined
    /** Gives up waiting for another migration. */
    signal?: AbortSignal | undefined
  } = {},
): Promise<{ applied: readonly string[] }> {
  const check = new OptionChecker('migrate', options).known('prefix', 'signal')
  const tables = tablesOf('migrate', options.prefix ?? DEFAULT_PREFIX)
  const signal = check.signal('signal')
  const root = recogniseRoot('migrate', db, 'mysql2')
  let connection: OwnConnection | undefined
  let broken = true
  try {
    connection = await root.connect(db)
    const { query } = connection
    const applied = await applyMissing((text) => query(text, []), tables, signal)
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
 * @throws {InvalidOptionError} for a wrong option, or a server that is not supported.
 * @throws {SchemaError} when the tables are of a later revision than this version knows.
 * @throws {DatabaseUnavailableError} when the database cannot be reached.
 */
export async function pendingMigrations(
  db: object,
  options: {
    /** What the names of the tables begin with, 1 to 53 characters. @default 'txbox_' */
    prefix?: string | undefined
  } = {},
): Promise<readonly { readonly name: string; readonly sql: string }[]> {
  new OptionChecker('pendingMigrations', options).known('prefix')
  const tables = tablesOf('pendingMigrations', options.prefix ?? DEFAULT_PREFIX)
  const root = recogniseRoot('pendingMigrations', db, 'mysql2')
  const run: RunStatement = (text) => root.query(db, text, [], CHECK_TIMEOUT_MS)
  try {
    await checkEngine(run)
    const missing = await missingMigrations(run, tables)
    return missing.map(({ name, sql }) => ({ name, sql: withPrefix(sql, tables) }))
  } catch (error) {
    throw translate(error, 'looking at the tables')
  }
}

/**
 * The migrations for a `Migrator` of Kysely's, under the names `txbox_0001_inbox` and so on. Give them a Migrator and a
 * `migrationTableName` of their own, or merge them with yours. They may follow, or be followed by, `migrate` and the
 * plain files: each is safe to run again, also after it broke off.
 *
 * @throws {InvalidOptionError} for a wrong option.
 */
export function migrationProvider(
  options: {
    /** What the names of the tables begin with, 1 to 53 characters. @default 'txbox_' */
    prefix?: string | undefined
  } = {},
): { getMigrations(): Promise<Record<string, { up(db: object): Promise<void> }>> } {
  new OptionChecker('migrationProvider', options).known('prefix')
  const migrations = migrationSql(options.prefix ?? DEFAULT_PREFIX).map(({ name, sql }) => [
    `txbox_${name}`,
    {
      async up(db: object): Promise<void> {
        const adapter = recogniseHandle(db, 'mysql2')
        for (const statement of statementsOf(sql)) await adapter.query(db, statement, [])
      },
    },
  ])
  return { getMigrations: async () => Object.fromEntries(migrations) }
}

/** The SQL of all migrations for another prefix, as `txbox migrate --print` shows it. */
export function migrationSql(prefix: string): readonly { readonly name: string; readonly sql: string }[] {
  const tables = tablesOf('migrationSql', prefix)
  return MIGRATIONS.map(({ name, sql }) => ({ name, sql: withPrefix(sql, tables) }))
}

async function applyMissing(
  run: RunStatement,
  tables: Tables,
  signal: AbortSignal | undefined,
): Promise<readonly string[]> {
  await checkEngine(run)
  const unlock = await lock(run, tables, signal)
  try {
    const missing = await missingMigrations(run, tables)
    for (const { sql } of missing) {
      for (const statement of statementsOf(withPrefix(sql, tables))) {
        signal?.throwIfAborted()
        await run(statement)
      }
    }
    // Where connections do not commit by themselves.
    await run('commit')
    return missing.map((migration) => migration.name)
  } finally {
    await unlock().catch(() => undefined)
  }
}

async function missingMigrations(run: RunStatement, tables: Tables): Promise<typeof MIGRATIONS> {
  const applied = await appliedMigrations(run, tables)
  refuseLater(applied, tables.prefix)
  return MIGRATIONS.filter((migration) => !applied.has(migration.number))
}

async function appliedMigrations(run: RunStatement, tables: Tables): Promise<ReadonlySet<number>> {
  try {
    return (await inspect(run, tables)).applied
  } catch (error) {
    if (numberOf(error) === NO_TABLE) return new Set()
    throw error
  }
}

/** A lock of the connection's, by a name for this database and prefix: it ends with the connection, at the latest. */
async function lock(
  run: RunStatement,
  tables: Tables,
  signal: AbortSignal | undefined,
): Promise<() => Promise<unknown>> {
  const { rows } = await run('select cast(database() as binary) as name')
  const scope = JSON.stringify([textOf(rows[0]?.['name']), tables.prefix])
  const name = `txbox.migrate ${createHash('sha256').update(scope).digest('hex').slice(0, 40)}`
  for (;;) {
    signal?.throwIfAborted()
    const answer = await run(fill('select cast(get_lock(?, 0) as char) as locked', [name]))
    if (textOf(answer.rows[0]?.['locked']) === '1') {
      return () => run(fill('select cast(release_lock(?) as char) as released', [name]))
    }
    await pause(LOCK_PAUSE_MS, undefined, signal === undefined ? {} : { signal })
  }
}

/** A connection takes one statement at a time. Ours hold no semicolon but at their end. */
function statementsOf(sql: string): readonly string[] {
  return sql
    .replaceAll(/^\s*--.*$/gm, '')
    .split(/;\s*$/m)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '')
}

/** The files carry the default prefix. Between quotes a name is a text. */
function withPrefix(sql: string, tables: Tables): string {
  return sql.replaceAll(
    /('?)\btxbox_(inbox|outbox|leases|parked|redrives|versions|waiting|collections|migrations)\b\1/g,
    (_, quote: string, name: keyof Omit<Tables, 'prefix'>) =>
      quote === '' ? tables[name] : literal(tables.prefix + name),
  )
}
