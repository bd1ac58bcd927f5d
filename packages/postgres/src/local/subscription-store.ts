/* PostgreSQL returns the types that an INSERT has added; MySQL and MariaDB report only their number. */
import type { Subscription, SubscriptionStore } from '@txbox/core/ports'
import type { StatementRoot } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { runAtReadCommitted } from '../connection/run-alone.ts'
import { subscriptionStatements } from './subscription-statements.ts'

/** The table of subscriptions on PostgreSQL. `SubscriptionStore` documents the methods. */
export class PostgresSubscriptionStore implements SubscriptionStore {
  readonly #sql: ReturnType<typeof subscriptionStatements>
  readonly #source: StatementRoot

  constructor(schema: string, source: StatementRoot) {
    this.#sql = subscriptionStatements(schema)
    this.#source = source
  }

  async register(consumer: string, types: readonly string[]): Promise<readonly string[]> {
    const doing = `registering the local consumer '${consumer}'`
    const missing = await this.#typesOf(doing, this.#sql.missing, [consumer, [...new Set(types)]])
    return missing.length === 0 ? [] : this.#typesOf(doing, this.#sql.add, [consumer, missing])
  }

  async list(): Promise<readonly Subscription[]> {
    const { rows } = await runAtReadCommitted(this.#source, 'reading the subscriptions', this.#sql.list, [])
    return rows.map((row) => ({
      consumer: columns.text(row, 'consumer'),
      type: columns.text(row, 'type'),
      registeredAt: columns.date(row, 'registered_at'),
    }))
  }

  async #typesOf(doing: string, text: string, values: readonly unknown[]): Promise<readonly string[]> {
    const { rows } = await runAtReadCommitted(this.#source, doing, text, values)
    return rows.map((row) => columns.text(row, 'type'))
  }
}
