import { sql, type Kysely } from 'kysely'
import type { ReceiverTables } from '../services/receiver-tables.ts'
import type { SecondServiceTables } from '../services/second-service-tables.ts'
import type { ServiceDatabase } from '../services/service-database.ts'
import type { SenderTables } from './delivery-log.ts'

/** The databases of the three parties, which share nothing. */
export interface Parties {
  readonly sender: ServiceDatabase<SenderTables>
  readonly receiver: ServiceDatabase<ReceiverTables>
  readonly secondService: ServiceDatabase<SecondServiceTables>
}

/** @returns the numbers in the only row of the result, by column name. */
export async function numbersOf<T>(db: Kysely<T>, text: string): Promise<(name: string) => number> {
  const { rows } = await sql.raw<Record<string, string>>(text).execute(db)
  return (name) => Number(rows[0]?.[name])
}
