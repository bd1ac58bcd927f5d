import { Kysely, MysqlDialect } from 'kysely'
import type { Pool } from 'mysql2/promise'

/** Other variants share the pool, so that destroying this Kysely does not end it. */
export function kyselyOn(pool: Pool): Kysely<object> {
  return new Kysely<object>({ dialect: new MysqlDialect({ pool: pool.pool }) })
}
