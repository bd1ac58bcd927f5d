import { sql, type Generated } from 'kysely'
import type { ServiceDatabase } from './service-database.ts'

export interface SecondServiceTables {
  /** The effects: a feed of the events. No column is unique, so that a second effect is visible. */
  feed: {
    position: Generated<number>
    repository: string
    number: number
    delivery_id: string
    event: string
  }
  /** Every event that arrived, duplicates too. Only the demo needs this table, to count them. */
  arrivals: { message_id: string; outcome: string }
}

export async function createSecondServiceTables({
  db,
  migrate,
}: ServiceDatabase<SecondServiceTables>): Promise<void> {
  await migrate()
  await sql`
    create table feed (
      position serial,
      repository varchar(200) not null,
      number integer not null,
      delivery_id varchar(200) not null,
      event varchar(200) not null
    )`.execute(db)
  await sql`create table arrivals (message_id varchar(200) not null, outcome varchar(200) not null)`.execute(
    db,
  )
}
