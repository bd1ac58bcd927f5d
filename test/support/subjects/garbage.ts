import { randomUUID } from 'node:crypto'
import { beforeEach } from 'vitest'
import { openTransactions } from '../engines/mysql-status.ts'
import type { Root, Row, Target } from '../engines/target.ts'
import { until } from '../worlds/until.ts'

/** A row that a test inserts into the table of parked messages. Instants are seconds ago; negative values are ahead. */
export interface ParkedRow {
  readonly id: string
  readonly key?: string
  readonly diedAgo?: number
  readonly dueAgo?: number
  readonly deliverAgo?: number
}

/** Writes rows for a collector as the tables contain them, and reads the rows that the collector has left. */
export class Garbage {
  readonly #target: Target
  /** A setting of the whole server, on MySQL and MariaDB. */
  readonly #lock = `txbox ${randomUUID()}`
  #letGo: (() => Promise<void>) | undefined

  constructor(target: Target) {
    this.#target = target
  }

  /** The name of a table of txbox. */
  table(name: string): string {
    return this.#target.outboxTable.replace(/outbox$/, name)
  }

  /** Claims `prefix1` … of a consumer, which expired an hour ago, one a millisecond. */
  async expiredClaims(consumer: string, count: number, prefix = ''): Promise<void> {
    for (let from = 1; from <= count; from += 1000) {
      const numbers = Array.from({ length: Math.min(1000, count - from + 1) }, (_, index) => from + index)
      const rows = numbers.map((n) => `(?, ?, ${this.#ago(7200)}, ${this.#ago(3600 - n / 1000)})`)
      await this.#target.sql(
        `insert into ${this.table('inbox')} (consumer, ${this.#name('key')}, processed_at, expires_at) values ${rows.join(',')}`,
        numbers.flatMap((n) => [this.#bytes(consumer), this.#bytes(`${prefix}${n}`)]),
      )
    }
  }

  async park(...rows: readonly ParkedRow[]): Promise<void> {
    for (const row of rows) {
      const instant = (ago: number | undefined): string => (ago === undefined ? 'null' : this.#ago(ago))
      await this.#target.sql(
        `insert into ${this.table('parked')}
           (shard, id, topic, order_key, ${this.#name('key')}, content_type, headers, payload, created_at, due_at, dead_at, deliver_at)
         values (0, ?, 't', ?, ?, 'application/json', '{}', '{}', ${this.#ago(0)},
           ${instant(row.dueAgo)}, ${instant(row.diedAgo)}, ${instant(row.deliverAgo)})`,
        [this.#bytes(row.id), row.diedAgo === undefined ? (row.key ?? null) : null, row.key ?? null],
      )
    }
  }

  /** A parked message of a local consumer, or a dead letter. */
  async parkLocal({ id, diedAgo, dueAgo }: ParkedRow): Promise<void> {
    const instant = (ago: number | undefined): string => (ago === undefined ? 'null' : this.#ago(ago))
    await this.#target.sql(
      `insert into ${this.table('local_parked')}
         (consumer, shard, id, content_type, headers, payload, created_at, due_at, dead_at)
       values ('c', 0, ?, 'application/json', '{}', '{}', ${this.#ago(0)}, ${instant(dueAgo)}, ${instant(diedAgo)})`,
      [this.#bytes(id)],
    )
  }

  async localIds(): Promise<readonly string[]> {
    const rows = await this.#target.sql(`select id from ${this.table('local_parked')}`)
    return rows.map((row) => String(row['id'])).toSorted()
  }

  /** The record of an ended subscription, so many seconds ago. */
  async removed(consumer: string, ago: number): Promise<void> {
    await this.#target.sql(
      `insert into ${this.table('removals')} (removed_at, discarded, consumer, removed_by)
       values (${this.#ago(ago)}, 0, ?, 'somebody')`,
      [this.#bytes(consumer)],
    )
  }

  async removedConsumers(): Promise<readonly string[]> {
    const rows = await this.#target.sql(`select consumer from ${this.table('removals')}`)
    return rows.map((row) => String(row['consumer'])).toSorted()
  }

  /** Records of redrives, each so many seconds ago. */
  async redriven(...rows: readonly { readonly id: string; readonly ago: number }[]): Promise<void> {
    for (const { id, ago } of rows) {
      await this.#target.sql(
        `insert into ${this.table('redrives')} (redriven_at, dead_at, place, attempts, id, topic, redriven_by)
         values (${this.#ago(ago)}, ${this.#ago(ago)}, 1, 1, ?, 't', 'somebody')`,
        [this.#bytes(id)],
      )
    }
  }

  async redrivenIds(): Promise<readonly string[]> {
    const rows = await this.#target.sql(
      `select id from ${this.table('redrives')} order by redriven_at desc, id`,
    )
    return rows.map((row) => String(row['id']))
  }

  /** Messages of a version buffer: a dead one that died so long ago, or one that waits. */
  async buffered(
    ...rows: readonly {
      readonly consumer?: string
      readonly key: string
      readonly from: number
      readonly diedAgo?: number
    }[]
  ): Promise<void> {
    for (const { consumer = 'c', key, from, diedAgo } of rows) {
      const dead = diedAgo === undefined ? 'null' : this.#ago(diedAgo)
      await this.#target.sql(
        `insert into ${this.table('waiting')}
           (consumer, ${this.#name('key')}, from_version, to_version, received_at, dead_at, kind, payload)
         values (?, ?, ?, ?, ${this.#ago(1000 * 86_400)}, ${dead}, 'number', ?)`,
        [this.#bytes(consumer), this.#bytes(key), from, from + 1, this.#bytes('{}')],
      )
    }
  }

  /** `key from` of all messages in version buffers. */
  async bufferedKeys(): Promise<readonly string[]> {
    const rows = await this.#target.sql(
      `select ${this.#name('key')}, from_version from ${this.table('waiting')} order by ${this.#name('key')}, from_version`,
    )
    return rows.map((row) => `${String(row['key'])} ${String(row['from_version'])}`)
  }

  /** Sets the time at which a dead letter of a queue died to so many seconds ago. */
  async diedAgo(queue: string, id: string, seconds: number): Promise<void> {
    await this.#target.sql(
      `update ${this.table('queue')} set dead_at = ${this.#ago(seconds)} where topic = ? and id = ? and dead_at is not null`,
      [this.#bytes(queue), this.#bytes(id)],
    )
  }

  /** The ids of the dead letters of a queue. */
  async deadIds(queue: string): Promise<readonly string[]> {
    const rows = await this.#target.sql(
      `select id from ${this.table('queue')} where topic = ? and dead_at is not null`,
      [this.#bytes(queue)],
    )
    return rows.map((row) => String(row['id']))
  }

  /** The number of rows that handled messages have left in a queue. */
  async handled(queue: string): Promise<number> {
    return this.#count('queue', `topic = ? and due_at = ${this.#epoch()}`, queue)
  }

  /** The number of messages of a queue that can be received now. */
  async visible(queue: string): Promise<number> {
    const due = `due_at > ${this.#epoch()} and due_at <= ${this.#ago(0)}`
    return this.#count('queue', `topic = ? and ${due}`, queue)
  }

  async claimCount(): Promise<number> {
    return this.#count('inbox')
  }

  async parkedIds(): Promise<readonly string[]> {
    const rows = await this.#target.sql(`select id from ${this.table('parked')} order by place`)
    return rows.map((row) => String(row['id']))
  }

  async lastCollection(): Promise<Row> {
    const [row] = await this.#target.sql(`select * from ${this.table('collections')}`)
    return row!
  }

  /** Sets what a trigger does before each claim is deleted, until the next call. */
  async onDelete(what: 'nothing' | 'fails' | 'waits' | { sleepMs: number }): Promise<void> {
    const postgres = this.#target.engine === 'postgres'
    const inbox = this.table('inbox')
    await this.#target.sql(`drop trigger if exists hurdle${postgres ? ` on ${inbox}` : ''}`)
    if (what === 'nothing') return
    const body = this.#hurdle(what)
    if (postgres) {
      await this.#target.sql(
        `create or replace function hurdle() returns trigger language plpgsql as $$ begin ${body}; return old; end $$`,
      )
      await this.#target.sql(
        `create trigger hurdle before delete on ${inbox} for each row execute function hurdle()`,
      )
    } else {
      await this.#target.sql(
        `create trigger hurdle before delete on ${inbox} for each row begin ${body}; end`,
      )
    }
  }

  /** Stops the next batch after it has locked its rows, until it is released; uses a transaction of this root. */
  async holdBatch(root: Root): Promise<{ letGo(): Promise<void> }> {
    await this.onDelete('waits')
    const holder = await root.begin()
    const postgres = this.#target.engine === 'postgres'
    await holder.exec(postgres ? 'select pg_advisory_xact_lock(1)' : `select get_lock('${this.#lock}', 10)`)
    const letGo = async (): Promise<void> => {
      this.#letGo = undefined
      if (!postgres) await holder.exec(`select release_lock('${this.#lock}')`)
      await holder.rollback()
    }
    this.#letGo = letGo
    return { letGo }
  }

  /** A batch has locked its rows, and is held. */
  async batchHeld(): Promise<void> {
    const text =
      this.#target.engine === 'postgres'
        ? `select 1 from pg_stat_activity
           where datname = current_database() and wait_event_type = 'Lock' and query like '%delete%inbox%'`
        : `select 1 from information_schema.processlist where state = 'User lock' and db = database()`
    await until(
      async () => (await this.#target.sql(text)).length > 0,
      () => 'a batch has locked its rows',
    )
  }

  #hurdle(what: 'fails' | 'waits' | { sleepMs: number }): string {
    if (this.#target.engine === 'postgres') {
      if (what === 'fails') return "raise 'refused by the test'"
      return what === 'waits'
        ? 'perform pg_advisory_xact_lock(1)'
        : `perform pg_sleep(${what.sleepMs / 1000})`
    }
    if (what === 'fails') return "signal sqlstate '45000' set message_text = 'refused by the test'"
    return what === 'waits'
      ? `do get_lock('${this.#lock}', 60); do release_lock('${this.#lock}')`
      : `do sleep(${what.sleepMs / 1000})`
  }

  /** Kills each batch that takes longer than this, like an administrator. @returns a function that ends the watch */
  endLongBatches(ms: number): () => Promise<void> {
    let watching = true
    const watch = async (): Promise<void> => {
      while (watching) {
        const running = await this.runningBatches()
        await new Promise((resolve) => setTimeout(resolve, ms))
        for (const { id, transaction } of await this.runningBatches()) {
          if (running.some((one) => one.id === id && one.transaction === transaction))
            await this.#interrupt(id)
        }
      }
    }
    const over = watch()
    return async () => {
      watching = false
      await over
    }
  }

  async clear(): Promise<void> {
    // A failed test may have left a held batch.
    await this.#letGo?.()
    await this.onDelete('nothing')
    for (const table of [
      ...['inbox', 'outbox', 'parked', 'queue', 'redrives', 'leases', 'waiting', 'versions'],
      ...['local_outbox', 'local_parked', 'subscriptions', 'removals', 'dedup_leases'],
    ]) {
      await this.#target.sql(`delete from ${this.table(table)}`)
    }
  }

  /** Batches of collectors that the server is running: the transactions of all other connections. */
  async runningBatches(): Promise<readonly { id: unknown; transaction: unknown }[]> {
    if (this.#target.engine === 'postgres') {
      const rows = await this.#target.sql(
        `select pid as id, xact_start::text as transaction from pg_stat_activity
         where datname = current_database() and state = 'active' and pid <> pg_backend_pid() and query like '%delete%inbox%'`,
      )
      return rows.map((row) => ({ id: row['id'], transaction: row['transaction'] }))
    }
    const open = await openTransactions((text) => this.#target.sql(text))
    return open.map(({ thread, id }) => ({ id: thread, transaction: id }))
  }

  async #interrupt(id: unknown): Promise<void> {
    if (this.#target.engine === 'postgres') await this.#target.sql('select pg_cancel_backend(?)', [id])
    else await this.#target.sql(`kill query ${Number(id)}`).catch(() => undefined)
  }

  async #count(table: string, where = '1 = 1', queue?: string): Promise<number> {
    const values = queue === undefined ? [] : [this.#bytes(queue)]
    const text = `select count(*) as n from ${this.table(table)} where ${where}`
    const [row] = await this.#target.sql(text, values)
    return Number(row?.['n'])
  }

  #epoch(): string {
    return this.#target.engine === 'postgres' ? "timestamptz 'epoch'" : "timestamp '1970-01-01 00:00:00'"
  }

  #ago(seconds: number): string {
    return this.#target.engine === 'postgres'
      ? `clock_timestamp() - interval '1 second' * ${seconds}`
      : `utc_timestamp(6) - interval ${Math.round(seconds * 1e6)} microsecond`
  }

  #name(column: string): string {
    return this.#target.engine === 'postgres' ? `"${column}"` : `\`${column}\``
  }

  #bytes(text: string): unknown {
    return this.#target.engine === 'postgres' ? text : Buffer.from(text)
  }
}

/** For a test file: empty tables before each test. */
export function useGarbage(target: Target): Garbage {
  const garbage = new Garbage(target)
  beforeEach(() => garbage.clear())
  return garbage
}
