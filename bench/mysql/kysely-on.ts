import { Kysely, MysqlDialect } from 'kysely'
import type { Pool } from 'mysql2/promise'

/** The pool is shared with others and not destroyed with this. */
export function kyselyOn(pool: Pool): Kysely<object> {
  return new Kysely<object>({ dialect: new MysqlDialect({ pool: pool.pool }) })
}
