/* MySQL and MariaDB may let a registration wait for publishers at REPEATABLE READ; PostgreSQL does not. */
import type { Subscription, SubscriptionStore } from '@txbox/core/ports'
import { attemptsOnConflict } from '@txbox/core/internal'
import { columns } from '../connection/columns.ts'
import { DUPLICATE_KEY, errors, hasNumber } from '../connection/errors.ts'
import type { Tables } from '../connection/identifiers.ts'
import { runBounded, runTogether, type MysqlStatementRoot } from '../connection/run-alone.ts'
import { subscriptionStatements } from './subscription-statements.ts'

const REGISTERING = 'registering a local consumer'

/** How often a registration is tried that waits for publishers at REPEATABLE READ. */
const ATTEMPTS = 5

/** The table of subscriptions on MySQL and MariaDB. {@link SubscriptionStore} documents the methods. */
export class MysqlSubscriptionStore implements SubscriptionStore {
  readonly #sql: ReturnType<typeof subscriptionStatements>
  readonly #source: MysqlStatementRoot

  constructor(tables: Tables, source: MysqlStatementRoot) {
    this.#sql = subscriptionStatements(tables)
    this.#source = source
  }

  async register(consumer: string, types: readonly string[]): Promise<readonly string[]> {
    const known = await this.#known(consumer, types)
    const missing = [...new Set(types)].filter((type) => !known.has(type)).toSorted()
    const added: string[] = []
    for (const type of missing) {
      const add = (): Promise<boolean> => this.#add(consumer, type)
      if (await attemptsOnConflict(add, errors, { attempts: ATTEMPTS })) added.push(type)
    }
    return added
  }

  /** @returns `false` if another process has added the row meanwhile. */
  async #add(consumer: string, type: string): Promise<boolean> {
    const values = [Buffer.from(type), Buffer.from(consumer)]
    try {
      await runTogether(this.#source, REGISTERING, (run) => run(this.#sql.add, values))
      return true
    } catch (error) {
      if (!hasNumber(error, DUPLICATE_KEY)) throw error
      return false
    }
  }

  async list(): Promise<readonly Subscription[]> {
    const { rows } = await runBounded(this.#source, 'reading subscriptions', this.#sql.list, [])
    return rows.map((row) => ({
      type: columns.key(row, 'type'),
      consumer: columns.key(row, 'consumer'),
      registeredAt: columns.date(row, 'registered_at'),
    }))
  }

  async #known(consumer: string, types: readonly string[]): Promise<ReadonlySet<string>> {
    if (types.length === 0) return new Set()
    const values = [types.map((type) => Buffer.from(type)), Buffer.from(consumer)]
    const { rows } = await runBounded(this.#source, REGISTERING, this.#sql.known, values)
    return new Set(rows.map((row) => columns.key(row, 'type')))
  }
}
