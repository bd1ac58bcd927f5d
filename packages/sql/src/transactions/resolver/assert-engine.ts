import { UnsupportedTransactionError } from '@txbox/core'
import type { Engine, Resolved } from '../adapters.ts'

const NAMES: Readonly<Record<Engine, string>> = { postgres: 'PostgreSQL', mysql: 'MySQL or MariaDB' }
const FACTORIES: Readonly<Record<Engine, string>> = { postgres: 'postgres()', mysql: 'mysql()' }

/**
 * Checks that a transaction belongs to a kind of database, as far as its library shows it. A statement for another kind would be a
 * syntax error.
 *
 * @throws {UnsupportedTransactionError} when the transaction is one of another kind of database.
 */
export function assertEngine(
  { driver, connection, name }: Pick<Resolved, 'driver' | 'connection' | 'name'>,
  engine: Engine,
): void {
  const found = driver.engineOf?.(connection)
  if (found === undefined || found === engine) return
  throw new UnsupportedTransactionError(
    `Expected a transaction on ${NAMES[engine]}, but this ${name} transaction is one on ${NAMES[found]}. Nothing was written. Pass a ` +
      `transaction of the database of ${FACTORIES[engine]}, or pass txbox the database of ${FACTORIES[found]}.`,
  )
}
