import { randomUUID } from 'node:crypto'
import type { OpenTransaction, Row, Target } from '../engines/target.ts'

/** The rows of some local consumers, whose names are their own. */
export class LocalRows {
  protected readonly target: Target
  readonly #suffix = randomUUID().slice(0, 8)

  constructor(target: Target) {
    this.target = target
  }

  /** The name of a consumer in the database. */
  name(consumer = 'billing'): string {
    return `${consumer}-${this.#suffix}`
  }

  /** The number of committed effects of a message. */
  effects(id: string | undefined, consumer = 'billing'): Promise<number> {
    return this.target.effects(this.effectOf(consumer, String(id)))
  }

  /** The ids of all effects of a consumer, in their order. */
  async effectsInOrder(consumer = 'billing'): Promise<string[]> {
    const prefix = `${this.name(consumer)} `
    const rows = await this.target.sql('select name from effects where name like ? order by seq', [
      `${prefix}%`,
    ])
    return rows.map(({ name }) => String(name).slice(prefix.length))
  }

  /** The rows that wait, and the parked ones that are no dead letters. */
  async left(consumer = 'billing'): Promise<number> {
    // By one statement: a message that is being parked is in one of the two tables.
    const [row] = await this.target.sql(
      `select (select count(*) from ${this.table('local_outbox')} where consumer = ?)
         + (select count(*) from ${this.table('local_parked')} where consumer = ? and dead_at is null) as n`,
      [this.parameterOf(consumer), this.parameterOf(consumer)],
    )
    return Number(row?.['n'])
  }

  async waiting(consumer = 'billing'): Promise<number> {
    const [row] = await this.sql(
      `select count(*) as n from ${this.table('local_outbox')} where consumer = ?`,
      consumer,
    )
    return Number(row?.['n'])
  }

  /** The parked messages, dead letters included. */
  parked(consumer = 'billing'): Promise<readonly Row[]> {
    const key = this.target.engine === 'postgres' ? 'key' : '`key`'
    const id = this.target.engine === 'postgres' ? 'id' : 'cast(id as char) as id'
    return this.sql(
      `select ${id}, ${key}, attempts, due_at is not null as due, dead_at is not null as dead from ${this.table('local_parked')}
       where consumer = ? order by place`,
      consumer,
    )
  }

  /** Locks the row of a waiting message, and nothing beside it. */
  async lockRow(transaction: Pick<OpenTransaction, 'exec'>, id: string | undefined): Promise<void> {
    const { where, parameters } = await this.#rowOf(id)
    await transaction.exec(
      `select 1 from ${this.table('local_outbox')} where ${where} for update`,
      parameters,
    )
  }

  /** Deletes the row of a waiting message in a transaction. */
  async deleteRow(transaction: Pick<OpenTransaction, 'exec'>, id: string | undefined): Promise<void> {
    const { where, parameters } = await this.#rowOf(id)
    await transaction.exec(`delete from ${this.table('local_outbox')} where ${where}`, parameters)
  }

  /** The row by its primary key: a statement that scans rows would lock all of them on MySQL. */
  async #rowOf(
    id: string | undefined,
    consumer = 'billing',
  ): Promise<{ readonly where: string; readonly parameters: readonly unknown[] }> {
    const [row] = await this.target.sql(
      `select o.shard, o.seq from ${this.table('local_outbox')} as o where consumer = ? and id = ?`,
      [this.parameterOf(consumer), id],
    )
    if (row === undefined) throw new Error(`No message ${id} waits.`)
    return {
      where: 'consumer = ? and shard = ? and seq = ?',
      parameters: [this.parameterOf(consumer), row['shard'], String(row['seq'])],
    }
  }

  table(name: 'local_outbox' | 'local_parked' | 'subscriptions' | 'removals'): string {
    return this.target.outboxTable.replace(/outbox$/, name)
  }

  /** SQL whose only parameter is the name of a consumer. */
  sql(text: string, consumer = 'billing'): Promise<readonly Row[]> {
    return this.target.sql(text, [this.parameterOf(consumer)])
  }

  /** The name of a consumer as a parameter of SQL. */
  parameterOf(consumer = 'billing'): string | Buffer {
    const name = this.name(consumer)
    return this.target.engine === 'postgres' ? name : Buffer.from(name)
  }

  /** The name of the effect of a message. */
  protected effectOf(consumer: string, id: string): string {
    return `${this.name(consumer)} ${id}`
  }
}
