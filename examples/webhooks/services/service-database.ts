import type { ConnectedDatabase } from 'txbox'
import type { Kysely, Transaction } from 'kysely'
import { onMysql } from './on-mysql.ts'
import { onPostgres } from './on-postgres.ts'
import type { ReceiverTables } from './receiver-tables.ts'

/**
 * A service's database. Your own service has one kind, and needs none of this: on-postgres.ts and on-mysql.ts, side by
 * side, contain all differences between the databases.
 */
export interface ServiceDatabase<T> {
  readonly db: Kysely<T>
  /** For inbox and outbox, in transactions of Kysely's. */
  readonly database: ConnectedDatabase<Transaction<T>>
  /** For a relay, which only needs the pool under Kysely. */
  readonly relayDatabase: ConnectedDatabase<unknown>
  /** Creates, or brings up to date, the tables of txbox. */
  readonly migrate: () => Promise<unknown>
  /** The tables in which messages wait, for queries of the demo. */
  readonly outboxTable: string
  readonly close: () => Promise<void>
}

/** One delivery more for a repository: adds these numbers to its row, or makes the row. @returns its number of deliveries. */
export type AddToRepository = (
  tx: Transaction<ReceiverTables>,
  row: ReceiverTables['repositories'],
) => Promise<number>

/** @param connections the maximum number of connections. */
export function openDatabase<T>(url: string, connections: number): ServiceDatabase<T> {
  return isPostgres(url) ? onPostgres(url, connections) : onMysql(url, connections)
}

export function isPostgres(url: string): boolean {
  return /^postgres(ql)?:/.test(url)
}
