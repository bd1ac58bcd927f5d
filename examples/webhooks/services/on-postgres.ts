// The code for PostgreSQL.
import { migrate, postgres } from 'txbox/postgres'
import { Kysely, PostgresDialect, sql } from 'kysely'
import { Pool } from 'pg'
import type { AddToRepository, ServiceDatabase } from './service-database.ts'

export function onPostgres<T>(url: string, connections: number): ServiceDatabase<T> {
  const pool = new Pool({ connectionString: url, max: connections })
  // Without a listener, an idle connection that breaks would end the process; a broken connection in use rejects its
  // statement.
  pool.on('error', (error) => console.error(error))
  const db = new Kysely<T>({ dialect: new PostgresDialect({ pool }) })
  return {
    db,
    database: postgres({ db: db as Kysely<unknown> }) as ServiceDatabase<T>['database'],
    relayDatabase: postgres({ db: pool }) as ServiceDatabase<T>['relayDatabase'],
    migrate: () => migrate(db),
    outboxTable: 'txbox.outbox',
    close: () => db.destroy(),
  }
}

export const addOnPostgres: AddToRepository = async (tx, row) => {
  const { deliveries } = await tx
    .insertInto('repositories')
    .values(row)
    .onConflict((conflict) =>
      conflict.column('repository').doUpdateSet({
        deliveries: sql`repositories.deliveries + 1`,
        pushes: sql`repositories.pushes + excluded.pushes`,
        issues: sql`repositories.issues + excluded.issues`,
        pull_requests: sql`repositories.pull_requests + excluded.pull_requests`,
      }),
    )
    .returning('deliveries')
    .executeTakeFirstOrThrow()
  return deliveries
}
