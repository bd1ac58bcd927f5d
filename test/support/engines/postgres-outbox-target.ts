import { Pool } from 'pg'
import type { BacklogRow, ParkedRow, ServerTransaction } from './outbox-target.ts'
import { numbered } from './postgres-pool.ts'
import { ServerOutboxTarget } from './server-outbox-target.ts'
import type { Row } from './target.ts'

const OTHERS = "datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"

export class PostgresOutboxTarget extends ServerOutboxTarget {
  protected readonly tables = 'txbox.'
  /** A pool, because tests query concurrently, with one connection, so that it can exclude itself from the results. */
  #pool: Pool | undefined

  protected connect(url: string): void {
    this.#pool = new Pool({ connectionString: url, max: 1, idleTimeoutMillis: 0 })
    // The database may be dropped before the connection is closed.
    this.#pool.on('error', () => undefined)
    this.#pool.on('connect', (client) => void client.on('error', () => undefined))
  }

  async close(): Promise<void> {
    await this.#pool?.end()
  }

  async sql(text: string, parameters: readonly unknown[] = []): Promise<readonly Row[]> {
    if (this.#pool === undefined) throw new Error('The connection is opened before the first test.')
    return (await this.#pool.query<Row>(numbered(text), [...parameters])).rows
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

  async fill(messages: number): Promise<void> {
    await this.sql(
      `insert into txbox.outbox (shard, id, topic, key, content_type, headers, payload)
       select n % 16, 'filler-' || n, 'filler', null, 'application/json', '{}', '{}'
       from generate_series(1, ?::int) as n`,
      [messages],
    )
  }

  protected heldRows(): Promise<readonly Row[]> {
    return this.sql(
      `select name, owner, term::text as term from txbox.leases
       where starts_with(name, 'outbox/') and owner is not null and expires_at > clock_timestamp() order by name`,
    )
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

  protected async endConnections(): Promise<number> {
    const cut = await this.sql(`select pid, pg_terminate_backend(pid) from pg_stat_activity where ${OTHERS}`)
    return cut.length
  }
}
