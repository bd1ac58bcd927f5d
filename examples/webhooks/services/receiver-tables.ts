import { sql, type Generated } from 'kysely'
import type { ServiceDatabase } from './service-database.ts'

export interface ReceiverTables {
  /** The statistics, one row for each repository. */
  repositories: {
    repository: string
    deliveries: number
    pushes: number
    issues: number
    pull_requests: number
  }
  /** One row for each effect. No column is unique, so that a second effect is visible. */
  history: { position: Generated<number>; repository: string; number: number; delivery_id: string }
}

export async function createReceiverTables({ db, migrate }: ServiceDatabase<ReceiverTables>): Promise<void> {
  await migrate()
  await sql`
    create table repositories (
      repository varchar(200) primary key,
      deliveries integer not null,
      pushes integer not null,
      issues integer not null,
      pull_requests integer not null
    )`.execute(db)
  await sql`
    create table history (
      position serial,
      repository varchar(200) not null,
      number integer not null,
      delivery_id varchar(200) not null
    )`.execute(db)
}
