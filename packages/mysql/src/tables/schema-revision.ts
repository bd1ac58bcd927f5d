/*
 * On MySQL and MariaDB, the tables have a prefix, and the query for the revision also asks what the server is. On
 * PostgreSQL, a schema contains the tables.
 */
import { Migrations, type Row, type RunStatement } from '@txbox/sql/stores'
import { columns } from '../connection/columns.ts'
import { NO_TABLE, errors, numberOf } from '../connection/errors.ts'
import { DEFAULT_PREFIX, quotedName, tablesOf, type Tables } from '../connection/identifiers.ts'
import { literal } from '../connection/literals.ts'
import { refuseSettings } from '../connection/session-settings.ts'
import { migrationStatements } from './migration-statements.ts'
import { MIGRATIONS } from './migrations.gen.ts'
import { engineOf, type ServerTraits } from '../connection/server.ts'

/** A place is the tables of a prefix. */
export const migrations = new Migrations<Tables>({
  engine: 'mysql',
  errors,
  migrations: MIGRATIONS,
  option: 'prefix',
  placeOf: (call, prefix) => tablesOf(call, prefix ?? DEFAULT_PREFIX),
  startOf: ({ prefix }) => `.${prefix}`,
  nameOf: ({ prefix }) => `'${prefix}…'`,
  async checkServer(run, tables) {
    const { rows } = await run(migrationStatements(tables).version)
    engineOf(columns.text(rows[0], 'version'))
    refuseSettings(rows[0])
  },
  async applied(run, tables) {
    try {
      return (await inspect(run, migrationStatements(tables).traits)).applied
    } catch (error) {
      if (numberOf(error) === NO_TABLE) return new Set()
      throw error
    }
  },
  // The migration files use the default prefix. Quoted text must not change.
  on: (sql, tables) =>
    sql.replaceAll(
      /('?)\btxbox_(inbox|(?:local_)?outbox|(?:dedup_)?leases|(?:local_)?parked|queue|redrives|subscriptions|removals|versions|waiting|collections|key_locks|migrations)\b\1/g,
      (_, quote: string, name: string) =>
        quote === '' ? quotedName(tables.prefix + name) : literal(tables.prefix + name),
    ),
})

/**
 * @param statement reads the traits of the server and the revision.
 * @throws {SchemaError} when the tables have an earlier or later revision than this version of the package.
 */
export async function checkRevision(
  run: RunStatement,
  tables: Tables,
  statement = migrationStatements(tables).traits,
): Promise<ServerTraits> {
  const { applied, server } = await inspect(run, statement)
  migrations.assertRevision(applied, tables)
  return server
}

/**
 * Like `checkRevision`, for a connection of txbox's own.
 *
 * @throws {InvalidOptionError} for a setting of the connection with which txbox cannot work.
 */
export async function checkOwnConnection(run: RunStatement, tables: Tables): Promise<ServerTraits> {
  const { applied, server, settings } = await inspect(run, migrationStatements(tables).traits)
  refuseSettings(settings)
  migrations.assertRevision(applied, tables)
  return server
}

async function inspect(
  run: RunStatement,
  statement: string,
): Promise<{ applied: ReadonlySet<number>; server: ServerTraits; settings: Row }> {
  const { rows } = await run(statement)
  const [first] = rows
  if (first === undefined) throw new Error('The server gave no answer.')
  const numbers = rows.filter((row) => columns.has(row, 'number')).map((row) => columns.number(row, 'number'))
  return {
    applied: new Set(numbers),
    settings: first,
    server: {
      engine: engineOf(columns.text(first, 'version')),
      // A packet has one more byte for its type; the rest is a reserve for what a proxy may add.
      maxStatementBytes: columns.number(first, 'packet') - 1024,
      autocommit: columns.flag(first, 'autocommit'),
    },
  }
}
