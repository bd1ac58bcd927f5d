import { beforeEach } from 'vitest'
import { useOutboxTarget } from '../engines/outbox-target.ts'
import type { Row, Target } from '../engines/target.ts'

type Columns = Readonly<Record<string, string>>

/** Rows of local consumers as an operator finds them, without a process that runs the consumers. */
export class OperatedConsumers {
  readonly #target: Target

  constructor(target: Target) {
    this.#target = target
  }

  table(name: string): string {
    return this.#target.outboxTable.replace(/outbox$/, name)
  }

  /** An instant so many seconds ago; a negative number is ahead. */
  ago(seconds: number): string {
    return this.#target.engine === 'postgres'
      ? `clock_timestamp() - ${seconds} * interval '1 second'`
      : `utc_timestamp(6) - interval ${seconds} second`
  }

  /** A message that waits. The values of the columns are SQL. */
  async waiting(consumer: string, id: string, columns: Columns = {}): Promise<void> {
    await this.#insert('local_outbox', consumer, id, columns)
  }

  async parked(consumer: string, id: string, columns: Columns = {}): Promise<void> {
    await this.#insert('local_parked', consumer, id, columns)
  }

  async dead(consumer: string, id: string, columns: Columns = {}): Promise<void> {
    await this.parked(consumer, id, { dead_at: this.ago(10), attempts: '7', error: "'no'", ...columns })
  }

  async subscribe(consumer: string, ...types: readonly string[]): Promise<void> {
    for (const type of types) {
      await this.#target.sql(
        `insert into ${this.table('subscriptions')} (registered_at, type, consumer) values (${this.ago(0)}, '${type}', '${consumer}')`,
      )
    }
  }

  /** The row by which others know a process that runs the consumer. */
  async runs(consumer: string, owner = 'o'): Promise<void> {
    await this.#target.sql(
      `insert into ${this.table('leases')} (name, owner, term, expires_at)
       values ('local-member/${consumer}/${owner}', '${owner}', 1, ${this.ago(-60)})`,
    )
  }

  /** `consumer id` of the rows of a table, in order. */
  async left(table: 'local_outbox' | 'local_parked', where = '1 = 1'): Promise<readonly string[]> {
    const rows = await this.#target.sql(`select consumer, id from ${this.table(table)} where ${where}`)
    return rows.map((row) => `${text(row, 'consumer')} ${text(row, 'id')}`).toSorted()
  }

  async types(consumer: string): Promise<readonly string[]> {
    const rows = await this.#target.sql(
      `select type from ${this.table('subscriptions')} where consumer = '${consumer}' order by type`,
    )
    return rows.map((row) => text(row, 'type'))
  }

  async removals(): Promise<readonly (readonly [string, string | null, number])[]> {
    const rows = await this.#target.sql(
      `select consumer, type, discarded from ${this.table('removals')} order by number`,
    )
    return rows.map((row) => [
      text(row, 'consumer'),
      row['type'] === null ? null : text(row, 'type'),
      Number(row['discarded']),
    ])
  }

  async clear(): Promise<void> {
    for (const name of ['local_outbox', 'local_parked', 'subscriptions', 'removals', 'redrives', 'parked'])
      await this.#target.sql(`delete from ${this.table(name)}`)
    await this.#target.sql(`delete from ${this.table('leases')}`)
  }

  async #insert(table: string, consumer: string, id: string, columns: Columns): Promise<void> {
    const all = {
      shard: '3',
      content_type: "'application/json'",
      headers: "'{}'",
      created_at: this.ago(100),
      type: "'order.placed'",
      ...columns,
    }
    const names = Object.keys(all).map((name) => this.#name(name))
    await this.#target.sql(
      `insert into ${this.table(table)} (consumer, id, payload, ${names.join(', ')})
       values ('${consumer}', '${id}', '"x"', ${Object.values(all).join(', ')})`,
    )
  }

  #name(column: string): string {
    return column === 'key' && this.#target.engine !== 'postgres' ? '`key`' : column
  }
}

/** The columns have binary types on MySQL and MariaDB. */
function text(row: Row, name: string): string {
  return String(row[name])
}

export function useOperatedConsumers(target: Target): OperatedConsumers {
  useOutboxTarget(target)
  const consumers = new OperatedConsumers(target)
  beforeEach(() => consumers.clear())
  return consumers
}
