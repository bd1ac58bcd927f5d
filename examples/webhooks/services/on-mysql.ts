// The code for MySQL and MariaDB.
import { migrate, mysql } from 'txbox/mysql'
import { Kysely, MysqlDialect, sql } from 'kysely'
import { createPool } from 'mysql2'
import type { AddToRepository, ServiceDatabase } from './service-database.ts'

export function onMysql<T>(url: string, connections: number): ServiceDatabase<T> {
  const pool = createPool({ uri: url, connectionLimit: connections })
  const db = new Kysely<T>({ dialect: new MysqlDialect({ pool }) })
  return {
    db,
    database: mysql({ db: db as Kysely<unknown> }) as ServiceDatabase<T>['database'],
    relayDatabase: mysql({ db: pool.promise() }) as ServiceDatabase<T>['relayDatabase'],
    migrate: () => migrate(db),
    outboxTable: 'txbox_outbox',
    close: () => pool.promise().end(),
  }
}

export const addOnMysql: AddToRepository = async (tx, row) => {
  await tx
    .insertInto('repositories')
    .values(row)
    .onDuplicateKeyUpdate({
      deliveries: sql`deliveries + 1`,
      pushes: sql`pushes + ${row.pushes}`,
      issues: sql`issues + ${row.issues}`,
      pull_requests: sql`pull_requests + ${row.pull_requests}`,
    })
    .execute()
  // This transaction holds the lock on the row until the commit, so this is the number that it has just written.
  const { deliveries } = await tx
    .selectFrom('repositories')
    .select('deliveries')
    .where('repository', '=', row.repository)
    .executeTakeFirstOrThrow()
  return deliveries
}
