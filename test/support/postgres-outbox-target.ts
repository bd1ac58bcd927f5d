import { Pool } from 'pg'
import { inject } from 'vitest'
import type { BacklogRow, ParkedRow, OutboxTarget, ServerTransaction, ShardLease } from './outbox-target.ts'
import type { Row, Target } from './target.ts'
import { until } from './until.ts'

const OTHERS = "datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"

/** Where the database of a target is. */
export async function databaseUrl(target: Target): Promise<string> {
  const [serverUrl] = inject('needs').map((name) => inject('servers')[name])
  const url = new URL(serverUrl ?? '')
  const [row] = await target.sql('select current_database() as name')
  url.pathname = `/${String(row?.['name'])}`
  return url.href
}

export class PostgresOutboxTarget implements OutboxTarget {
  readonly #target: Target
  #url = ''
  /** One connection, so that it can leave itself out; a pool, because tests ask in parallel. */
  #pool: Pool | undefined

  constructor(target: Target) {
    this.#target = target
  }

  async open(): Promise<void> {
    this.#url = await databaseUrl(this.#target)
    this.#pool = new Pool({ connectionString: this.#url, max: 1, idleTimeoutMillis: 0 })
    // The database may be dropped before the connection has gone.
    this.#pool.on('error', () => undefined)
    this.#pool.on('connect', (client) => void client.on('error', () => undefined))
  }

  async close(): Promise<void> {
    await this.#pool?.end()
  }

  url(): string {
    return this.#url
  }

  async sql(text: string, parameters: readonly unknown[] = []): Promise<readonly Row[]> {
    if (this.#pool === undefined) throw new Error('The connection is opened before the first test.')
    let number = 0
    const numbered = text.replaceAll('?', () => `$${(number += 1)}`)
    return (await this.#pool.query<Row>(numbered, [...parameters])).rows
  }

  async backlog(): Promise<readonly BacklogRow[]> {
    const rows = await this.sql(
      'select shard, seq::text as seq, id, key from txbox.outbox as o order by shard, o.seq',
    )
    return rows as unknown as readonly BacklogRow[]
  }

  async parked(): Promise<readonly ParkedRow[]> {
    const rows = await this.sql(
      `select shard, id, key, attempts, error, due_at is not null as due, dead_at is not null as dead
       from txbox.parked order by shard, place`,
    )
    return rows as unknown as readonly ParkedRow[]
  }

  async backlogSize(): Promise<number> {
    const [row] = await this.sql(
      `select (select count(*) from txbox.outbox) + (select count(*) from txbox.parked where dead_at is null) as n`,
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
    await this.sql(
      `insert into txbox.outbox (shard, id, topic, key, content_type, headers, payload)
       select n % 16, 'filler-' || n, 'filler', null, 'application/json', '{}', '{}'
       from generate_series(1, ?::int) as n`,
      [messages],
    )
  }

  async leases(): Promise<readonly ShardLease[]> {
    const rows = await this.sql(
      `select name, owner, term::text as term from txbox.leases
       where starts_with(name, 'outbox/') and owner is not null and expires_at > clock_timestamp() order by name`,
    )
    return rows.map((row) => ({
      shard: Number(String(row['name']).slice('outbox/'.length)),
      owner: String(row['owner']),
      term: BigInt(String(row['term'])),
    }))
  }

  async heldLeases(): Promise<number> {
    const [row] = await this.sql('select count(*)::int as n from txbox.leases where owner is not null')
    return Number(row?.['n'])
  }

  async expireLeases(owner?: string): Promise<void> {
    await this.sql(
      "update txbox.leases set expires_at = clock_timestamp() - interval '1 millisecond' where owner = coalesce(?, owner)",
      [owner ?? null],
    )
  }

  async lend(shard: number, lease: { owner: string; term: bigint; forMs: number }): Promise<void> {
    await this.sql(
      `update txbox.leases set owner = ?, term = ?, expires_at = clock_timestamp() + ?::float * interval '1 millisecond'
       where name = ?`,
      [lease.owner, String(lease.term), lease.forMs, `outbox/${String(shard).padStart(2, '0')}`],
    )
  }

  async transactions(): Promise<readonly ServerTransaction[]> {
    const rows = await this.sql(
      `select pid, xact_start::text as begun, query from pg_stat_activity
       where ${OTHERS} and xact_start is not null`,
    )
    return rows.map((row) => ({
      id: `${String(row['pid'])} ${String(row['begun'])}`,
      statement: String(row['query']),
    }))
  }

  async connections(): Promise<number> {
    const [row] = await this.sql(`select count(*)::int as n from pg_stat_activity where ${OTHERS}`)
    return Number(row?.['n'])
  }

  async cutConnections(): Promise<number> {
    const cut = await this.sql(`select pid, pg_terminate_backend(pid) from pg_stat_activity where ${OTHERS}`)
    // Those of the target itself were cut as well: its pool notices when they are used.
    for (let connection = 0; connection < 2; connection += 1) {
      const works = (): Promise<boolean> =>
        this.#target.sql('select 1').then(
          () => true,
          () => false,
        )
      await until(works, () => 'the target cannot connect again')
    }
    return cut.length
  }

  async clear(): Promise<void> {
    for (const table of ['outbox', 'parked', 'redrives']) await this.sql(`delete from txbox.${table}`)
    await this.sql('delete from txbox.leases')
  }
}
