import type { Pool } from 'mysql2/promise'
import { poolOf } from './mysql-pool.ts'
import { openTransactions } from './mysql-status.ts'
import type { BacklogRow, ParkedRow, ServerTransaction } from './outbox-target.ts'
import { ServerOutboxTarget } from './server-outbox-target.ts'
import type { Row } from './target.ts'

const OTHERS = 'from information_schema.processlist where db = database() and id <> connection_id()'

export class MysqlOutboxTarget extends ServerOutboxTarget {
  protected readonly tables = 'txbox_'
  /** A pool, because tests query concurrently, with one connection, so that it can exclude itself from the results. */
  #pool: Pool | undefined

  protected connect(url: string): void {
    this.#pool = poolOf(url, { connectionLimit: 1 }).promise()
  }

  async close(): Promise<void> {
    await this.#pool?.end()
  }

  async sql(text: string, parameters: readonly unknown[] = []): Promise<readonly Row[]> {
    if (this.#pool === undefined) throw new Error('The connection is opened before the first test.')
    const [rows] = await this.#pool.query(text, [...parameters])
    return Array.isArray(rows) ? (rows as Row[]) : []
  }

  async backlog(): Promise<readonly BacklogRow[]> {
    const rows = await this.sql(
      'select shard, cast(seq as char) as seq, id, `key` from txbox_outbox as o order by shard, o.seq',
    )
    return rows as unknown as readonly BacklogRow[]
  }

  async parked(): Promise<readonly ParkedRow[]> {
    const rows = await this.sql(
      `select shard, cast(id as char) as id, \`key\`, attempts, error, due_at is not null as due, dead_at is not null as dead
       from txbox_parked order by shard, place`,
    )
    return rows.map((row) =>
      Object.assign(row, { due: Boolean(row['due']), dead: Boolean(row['dead']) }),
    ) as unknown as readonly ParkedRow[]
  }

  async fill(messages: number): Promise<void> {
    for (let from = 1; from <= messages; from += 10_000) {
      const rows = Array.from({ length: Math.min(10_000, messages - from + 1) }, (_, index) => [
        (from + index) % 16,
        `filler-${from + index}`,
      ])
      await this.sql(
        `insert into txbox_outbox (shard, id, topic, content_type, headers, payload, created_at) values ${rows
          .map(() => "(?, ?, 'filler', 'application/json', '{}', '{}', utc_timestamp(6))")
          .join(',')}`,
        rows.flat(),
      )
    }
  }

  protected heldRows(): Promise<readonly Row[]> {
    return this.sql(
      `select cast(name as char) as name, cast(owner as char) as owner, cast(term as char) as term from txbox_leases
       where left(name, 7) = 'outbox/' and owner is not null and expires_at > utc_timestamp(6) order by name`,
    )
  }

  async expireLeases(owner?: string): Promise<void> {
    await this.sql(
      'update txbox_leases set expires_at = utc_timestamp(6) - interval 1000 microsecond where owner = coalesce(?, owner)',
      [owner ?? null],
    )
  }

  async lend(shard: number, lease: { owner: string; term: bigint; forMs: number }): Promise<void> {
    await this.sql(
      `update txbox_leases set owner = ?, term = ?, expires_at = utc_timestamp(6) + interval ? microsecond
       where name = ?`,
      [lease.owner, String(lease.term), lease.forMs * 1000, `outbox/${String(shard).padStart(2, '0')}`],
    )
  }

  async transactions(): Promise<readonly ServerTransaction[]> {
    const [own] = await this.sql('select connection_id() as id')
    const open = await openTransactions((text) => this.sql(text))
    return open
      .filter(({ thread }) => thread !== Number(own?.['id']))
      .map(({ thread, id, text }) => ({ id: `${thread} ${id}`, statement: text }))
  }

  async connections(): Promise<number> {
    const [row] = await this.sql(`select count(*) as n ${OTHERS}`)
    return Number(row?.['n'])
  }

  protected async endConnections(): Promise<number> {
    const rows = await this.sql(`select id as thread ${OTHERS}`)
    for (const row of rows) await this.sql(`kill ${Number(row['thread'])}`).catch(() => undefined)
    return rows.length
  }
}
