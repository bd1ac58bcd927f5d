/* Several products use the protocol of MySQL, and MySQL differs from MariaDB; PostgreSQL is one product. */
import { InvalidOptionError } from '@txbox/core'
import type { Tables } from './identifiers.ts'

export interface ServerTraits {
  readonly engine: 'mysql' | 'mariadb'
  readonly maxStatementBytes: number
  readonly autocommit: boolean
}

/** Statements by engine; the engine is known only after the first connection to the server. */
export type ByEngine<S> = Readonly<Record<ServerTraits['engine'], S>>

export function byEngine<S>(
  statements: (tables: Tables, engine: ServerTraits['engine']) => S,
  tables: Tables,
): ByEngine<S> {
  return { mysql: statements(tables, 'mysql'), mariadb: statements(tables, 'mariadb') }
}

/** Unsupported products with the protocol of MySQL, and the reasons. */
const REFUSED: readonly (readonly [RegExp, string, string])[] = [
  [/tidb/i, 'TiDB', 'it silently ignores SKIP LOCKED, so that two relays would hold one lease'],
  [/oceanbase/i, 'OceanBase', 'it was never tried'],
  [/memsql|singlestore/i, 'SingleStore', 'it was never tried'],
  [/vitess|planetscale/i, 'Vitess', 'it was never tried'],
]
const OLDEST = { mysql: [8, 0, 19], mariadb: [10, 6, 0] } as const

/**
 * Detects the product from the result of VERSION().
 *
 * @throws {InvalidOptionError} for a product or a version that does not behave as txbox requires.
 */
export function engineOf(version: string): ServerTraits['engine'] {
  for (const [pattern, name, reason] of REFUSED) {
    if (pattern.test(version)) {
      throw new InvalidOptionError(
        `mysql: the server is ${name} (${version}), which is not supported: ${reason}. Expected MySQL 8.0.19 or later, or ` +
          'MariaDB 10.6 or later.',
      )
    }
  }
  const engine = /mariadb/i.test(version) ? 'mariadb' : 'mysql'
  // A server that supports old replicas calls itself '5.5.5-10.11.19-MariaDB'.
  const numbers = /(\d+)\.(\d+)\.(\d+)?/.exec(version.replace(/^5\.5\.5-/, ''))
  if (numbers === null || isBefore(numbers.slice(1).map(Number), OLDEST[engine])) {
    throw new InvalidOptionError(
      `mysql: the server has version ${version}. Expected MySQL 8.0.19 or later, or MariaDB 10.6 or later, which have ` +
        'SKIP LOCKED, JSON_TABLE and row aliases.',
    )
  }
  return engine
}

function isBefore(version: readonly number[], oldest: readonly number[]): boolean {
  for (const [index, part] of oldest.entries()) {
    const actual = version[index] ?? NaN
    // '8.0.mysql_aurora.3.05' has no third number: only the first two are compared.
    if (Number.isNaN(actual)) return false
    if (actual !== part) return actual < part
  }
  return false
}
