import type { Pool } from 'mysql2/promise'
import { inject } from 'vitest'
import { poolOf } from './mysql-roots.ts'
import { openTransactions } from './mysql-status.ts'
import type { BacklogRow, ParkedRow, OutboxTarget, ServerTransaction, ShardLease } from './outbox-target.ts'
import type { Row, Target } from './target.ts'
import { until } from './until.ts'

const OTHERS = 'from information_schema.processlist where db = database() and id <> connection_id()'

export class MysqlOutboxTarget implements OutboxTarget {
  readonly #target: Target
  #url = ''
  /** One connection, so that it can leave itself out; a pool, because tests ask in parallel. */
  #pool: Pool | undefined

  constructor(target: Target) {
    this.#target = target
  }

  async open(): Promise<void> {
    const [serverUrl] = inject('needs').map((name) => inject('servers')[name])
    const url = new URL(serverUrl ?? '')
    const [row] = await this.#target.sql('select database() as name')
    url.pathname = `/${String(row?.['name'])}`
    this.#url = url.href
    this.#pool = poolOf(this.#url, { connectionLimit: 1 }).promise()
  }

  async close(): Promise<void> {
    await this.#pool?.end()
  }

  url(): string {
    return this.#url
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

  async backlogSize(): Promise<number> {
    const [row] = await this.sql(
      `select (select count(*) from txbox_outbox) + (select count(*) from txbox_parked where dead_at is null) as n`,
    )
    return Number(row?.['n'])
  }

  settled(): Promise<void> {
    return until(
      async () => (await this.backlogSize()) === 0,
      async () =>
        `the backlog is empty; there is ${JSON.stringify([...(await this.backlog()), ...(await this.parked())].slice(0, 10))}`,
    )
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

  async leases(): Promise<readonly ShardLease[]> {
    const rows = await this.sql(
      `select cast(name as char) as name, cast(owner as char) as owner, cast(term as char) as term from txbox_leases
       where left(name, 7) = 'outbox/' and owner is not null and expires_at > utc_timestamp(6) order by name`,
    )
    return rows.map((row) => ({
      shard: Number(String(row['name']).slice('outbox/'.length)),
      owner: String(row['owner']),
      term: BigInt(String(row['term'])),
    }))
  }

  async heldLeases(): Promise<number> {
    const [row] = await this.sql('select count(*) as n from txbox_leases where owner is not null')
    return Number(row?.['n'])
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

  async cutConnections(): Promise<number> {
    const rows = await this.sql(`select id as thread ${OTHERS}`)
    for (const row of rows) await this.sql(`kill ${Number(row['thread'])}`).catch(() => undefined)
    // Those of the target itself were cut as well: its pool notices when they are used.
    for (let connection = 0; connection < 2; connection += 1) {
      const works = (): Promise<boolean> =>
        this.#target.sql('select 1').then(
          () => true,
          () => false,
        )
      await until(works, () => 'the target cannot connect again')
    }
    return rows.length
  }

  async clear(): Promise<void> {
    for (const table of ['outbox', 'parked', 'redrives']) await this.sql(`delete from txbox_${table}`)
    await this.sql('delete from txbox_leases')
  }
}
