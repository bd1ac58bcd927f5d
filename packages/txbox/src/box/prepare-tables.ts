import { InvalidOptionError } from '@txbox/core'
import type { ConnectedPorts, TableState } from '@txbox/core/ports'

export interface TableOptions {
  readonly ports: ConnectedPorts
  readonly migrate: boolean | 'unless-production'
  readonly allowPGlite: boolean
}

/**
 * Creates or updates the tables as far as the options allow it, and checks them.
 *
 * @throws {InvalidOptionError} on PGlite in production, unless the options allow it.
 * @throws {SchemaError} when the tables are missing or have another revision.
 */
export async function prepareTables(
  { ports, migrate, allowPGlite }: TableOptions,
  signal: AbortSignal,
): Promise<void> {
  const environment = process.env['NODE_ENV']
  const isProduction = environment === 'production'
  const mayMigrate = migrate === true || (migrate === 'unless-production' && !isProduction)
  const tables = ports.tables()
  const state = await tables.state({ waits: mayMigrate, signal })
  if (state.isEmbedded && isProduction && !allowPGlite) {
    throw new InvalidOptionError(
      'createTxbox: the database is PGlite, and NODE_ENV is production. PGlite runs one statement at a time, and keeps its data in ' +
        'this process or folder only. Use a PostgreSQL server, or set allowPGlite: true if PGlite is what you want.',
    )
  }
  if (mayMigrate && migrates(state, migrate === true, environment)) await tables.migrate({ signal })
  await ports.checkSchema()
}

/** Tables that others may use are not updated by a program that only happens to be newer. */
function migrates(
  { revision, isEmbedded }: TableState,
  always: boolean,
  environment: string | undefined,
): boolean {
  if (revision === 'usable') return false
  if (revision === 'none' || always || isEmbedded) return true
  return environment === 'development' || environment === 'test'
}
