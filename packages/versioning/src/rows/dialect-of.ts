import { UnsupportedTransactionError } from '@txbox/core'
import { nameOf } from '@txbox/core/internal'
import type { Kysely } from 'kysely'
import type { AnyTables, Dialect } from './dialect.ts'
import { MYSQL } from './mysql-dialect.ts'
import { POSTGRES } from './postgres-dialect.ts'

/** @throws {UnsupportedTransactionError} when `db` is not a Kysely, or uses another database. */
export function dialectOf(where: string, db: unknown): Dialect {
  const adapter = isKysely(db) ? db.getExecutor().adapter : undefined
  if (adapter?.supportsReturning === true && adapter.supportsTransactionalDdl === true) return POSTGRES
  if (adapter?.supportsReturning === false && adapter.supportsOutput !== true) return MYSQL
  throw new UnsupportedTransactionError(
    `${where}: expected a Kysely transaction on PostgreSQL, MySQL or MariaDB, not ` +
      `${adapter === undefined ? nameOf(db) : `one with a ${adapter.constructor.name}`}. Nothing was written.`,
  )
}

function isKysely(db: unknown): db is Kysely<AnyTables> {
  return (
    typeof db === 'object' &&
    db !== null &&
    typeof Reflect.get(db, 'getExecutor') === 'function' &&
    typeof Reflect.get(db, 'updateTable') === 'function'
  )
}
