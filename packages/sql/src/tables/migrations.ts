import { SchemaError, type TransactionLibrary } from '@txbox/core'
import { OptionChecker, pause } from '@txbox/core/internal'
import { translatingErrors, type DatabaseErrors } from '../errors/database-errors.ts'
import { CHECK_TIMEOUT_MS } from '../transactions/deadline.ts'
import type { Engine, SqlResult } from '../transactions/adapters.ts'
import { tablesSeen } from '../errors/seen-tables.ts'
import { Resolver, resolverOption } from '../transactions/resolver/resolver.ts'

/** The pause before the next attempt to get a lock that another service holds. */
const LOCK_PAUSE_MS = 100

/**
 * How many revisions later than its own a process accepts. Processes of the release before run on while tables are migrated,
 * and must be able to start again after a crash: so each release has at most one migration, which the release before can use.
 */
const REVISIONS_AHEAD = 1

export const CHECKING = 'checking the tables'

interface Migration {
  readonly number: number
  readonly name: string
  readonly sql: string
}

/** A migration as users get it. */
interface MigrationText {
  readonly name: string
  readonly sql: string
}

/** Runs one statement. Throws errors that can be shown to the user. */
export type RunStatement = (text: string, values?: readonly unknown[]) => Promise<SqlResult>

/** The migrations of one database package. `P` is the type of the place of the tables: a schema or a prefix. */
interface MigratedDatabase<P> {
  readonly engine: Engine
  readonly errors: DatabaseErrors
  readonly migrations: readonly Migration[]
  /** The name of the option for the place of the tables. */
  readonly option: 'schema' | 'prefix'
  readonly placeOf: (call: string, option: string | undefined) => P
  /** Returns the beginning of the names of the tables, as the server writes them in its errors. */
  readonly startOf: (place: P) => string
  /** Returns the name of a place for error messages. */
  readonly nameOf: (place: P) => string
  /** Absent if each server is supported. */
  readonly checkServer?: (run: RunStatement, place: P) => Promise<void>
  /** The numbers of the applied migrations; empty if there are no tables. */
  applied(run: RunStatement, place: P): Promise<ReadonlySet<number>>
  /** Returns SQL of a migration file for the tables of a place. */
  readonly on: (sql: string, place: P) => string
}

/** The options of the calls about migrations; each database has only one of `schema` and `prefix`. */
interface MigrationOptions {
  readonly schema?: string | undefined
  readonly prefix?: string | undefined
  readonly libraries?: readonly TransactionLibrary[] | undefined
  readonly signal?: AbortSignal | undefined
}

export interface Migrating<P> {
  /** Runs a statement on the connection that migrates. */
  readonly run: RunStatement
  /** Runs a statement on another connection, as its own transaction. */
  readonly runApart: RunStatement
  readonly place: P
  readonly signal: AbortSignal | undefined
}

/** The calls about migrations, which the database packages export as functions. */
export class Migrations<P> {
  readonly #database: MigratedDatabase<P>

  constructor(database: MigratedDatabase<P>) {
    this.#database = database
  }

  /** Runs `apply` on a connection of the root. `apply` returns the names of the migrations that it has applied. */
  async migrate(
    db: object,
    options: MigrationOptions,
    apply: (work: Migrating<P>) => Promise<readonly string[]>,
  ): Promise<{ applied: readonly string[] }> {
    const { engine, errors, option, checkServer } = this.#database
    const check = new OptionChecker('migrate', options).known(option, 'signal', 'libraries')
    const place = this.#placeOf('migrate', options)
    const signal = check.signal('signal')
    const resolver = resolverOption(check, engine)
    const root = resolver.root('migrate', db)
    const runApart: RunStatement = (text, values) =>
      root.transact(db, async (tx) => runIn(resolver, tx)(text, values), undefined)
    return translatingErrors(errors, 'migrating the tables', async () => {
      const { query, release } = await root.connect(db)
      const run: RunStatement = (text, values = []) => query(text, values)
      let broken = true
      try {
        await checkServer?.(run, place)
        const applied = await apply({ run, runApart, place, signal })
        broken = false
        return { applied }
      } finally {
        release(broken)
      }
    })
  }

  /** For `pendingMigrations`. */
  async pending(db: object, options: MigrationOptions): Promise<readonly MigrationText[]> {
    const { engine, errors, option, checkServer } = this.#database
    const check = new OptionChecker('pendingMigrations', options).known(option, 'libraries')
    const place = this.#placeOf('pendingMigrations', options)
    const root = resolverOption(check, engine).root('pendingMigrations', db)
    const run: RunStatement = (text, values = []) => root.query(db, text, values, CHECK_TIMEOUT_MS)
    return translatingErrors(errors, CHECKING, async () => {
      await checkServer?.(run, place)
      return this.#textsOf(await this.missing(run, place), place)
    })
  }

  /**
   * Returns which tables are there. `apart` looks again after the migrations of other processes, if half of the tables may be
   * there: a server that commits each statement shows them.
   */
  async revision(
    db: object,
    options: MigrationOptions,
    apart?: (work: Migrating<P>) => Promise<void>,
  ): Promise<'none' | 'earlier' | 'usable'> {
    const { signal: _, ...rest } = options
    const missing = (await this.pending(db, rest)).length
    if (missing === 0) return 'usable'
    if (missing === this.#database.migrations.length) return 'none'
    if (apart === undefined) return 'earlier'
    await this.migrate(db, options, async (work) => {
      await apart(work)
      return []
    })
    return (await this.pending(db, rest)).length === 0 ? 'usable' : 'earlier'
  }

  /** For Kysely's `Migrator`. `apply` runs one migration file. */
  provider(
    options: MigrationOptions,
    apply: (run: RunStatement, sql: string, place: P) => Promise<void>,
  ): { getMigrations(): Promise<Record<string, { up(db: object): Promise<void> }>> } {
    const { engine, migrations, option } = this.#database
    new OptionChecker('migrationProvider', options).known(option)
    const place = this.#placeOf('migrationProvider', options)
    const resolver = new Resolver(engine)
    const named = migrations.map(({ name, sql }) => [
      `txbox_${name}`,
      { up: (db: object) => apply(runIn(resolver, db), sql, place) },
    ])
    return { getMigrations: async () => Object.fromEntries(named) }
  }

  texts(place: P): readonly MigrationText[] {
    return this.#textsOf(this.#database.migrations, place)
  }

  /** Returns the statements of a migration file. A statement must not contain a semicolon except at its end. */
  statementsOf(sql: string, place: P): readonly string[] {
    return sql
      .replaceAll(/^\s*--.*$/gm, '')
      .split(/;\s*$/m)
      .map((statement) => this.#database.on(statement.trim(), place))
      .filter((statement) => statement !== '')
  }

  /** @throws {SchemaError} when the tables have a later revision than the package can use. */
  async missing(run: RunStatement, place: P): Promise<readonly Migration[]> {
    return this.#missingIn(await this.#database.applied(run, place), place)
  }

  /** @throws {SchemaError} when the tables have an earlier revision than the package, or a later one than it can use. */
  assertRevision(applied: ReadonlySet<number>, place: P): void {
    const missing = this.#missingIn(applied, place)
    if (missing.length === 0) return tablesSeen(this.#database.startOf(place))
    throw new SchemaError(
      `The tables ${this.#database.nameOf(place)} lack ${missing.map(({ name }) => name).join(', ')}. Run ` +
        "'npx txbox migrate', or call migrate(db).",
    )
  }

  #missingIn(applied: ReadonlySet<number>, place: P): readonly Migration[] {
    const { engine, migrations, nameOf } = this.#database
    const latest = Math.max(0, ...applied)
    const usable = migrations.at(-1)!.number + REVISIONS_AHEAD
    if (latest <= usable) return migrations.filter(({ number }) => !applied.has(number))
    throw new SchemaError(
      `The tables ${nameOf(place)} have revision ${latest}; this version of @txbox/${engine} works with revisions up to ` +
        `${usable}. Upgrade the package.`,
    )
  }

  #placeOf(call: string, options: MigrationOptions): P {
    return this.#database.placeOf(call, options[this.#database.option])
  }

  #textsOf(migrations: readonly Migration[], place: P): readonly MigrationText[] {
    return migrations.map(({ name, sql }) => ({ name, sql: this.#database.on(sql, place) }))
  }
}

function runIn(resolver: Resolver, tx: unknown): RunStatement {
  return async (text, values = []) => {
    const { driver, connection } = await resolver.transaction(tx)
    return driver.query(connection, text, values)
  }
}

/** Tries to take a lock until it is taken, or the signal is aborted. */
export async function untilTaken(
  take: () => Promise<boolean>,
  signal: AbortSignal | undefined,
): Promise<void> {
  for (;;) {
    signal?.throwIfAborted()
    if (await take()) return
    await pause(LOCK_PAUSE_MS, signal)
  }
}
