import { inject } from 'vitest'
import type { BacklogRow, OutboxTarget, ParkedRow, ServerTransaction, ShardLease } from './outbox-target.ts'
import type { Row, Target } from './target.ts'
import { until } from '../worlds/until.ts'

/** The code for the outboxes of all databases under test. A class for each database contains its SQL and its driver. */
export abstract class ServerOutboxTarget implements OutboxTarget {
  protected readonly target: Target
  /** The prefix of the names of the tables. */
  protected abstract readonly tables: string
  #url = ''

  constructor(target: Target) {
    this.target = target
  }

  async open(): Promise<void> {
    this.#url = await databaseUrl(this.target)
    this.connect(this.#url)
  }

  url(): string {
    return this.#url
  }

  async backlogSize(): Promise<number> {
    const [row] = await this.sql(
      `select (select count(*) from ${this.tables}outbox)
         + (select count(*) from ${this.tables}parked where dead_at is null) as n`,
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

  async leases(): Promise<readonly ShardLease[]> {
    return (await this.heldRows()).map((row) => ({
      shard: Number(String(row['name']).slice('outbox/'.length)),
      owner: String(row['owner']),
      term: BigInt(String(row['term'])),
    }))
  }

  async heldLeases(): Promise<number> {
    const [row] = await this.sql(`select count(*) as n from ${this.tables}leases where owner is not null`)
    return Number(row?.['n'])
  }

  async cutConnections(): Promise<number> {
    const cut = await this.endConnections()
    // The connections of the target itself were cut as well: its pool detects this when they are used.
    for (let connection = 0; connection < 2; connection += 1) {
      const works = (): Promise<boolean> =>
        this.target.sql('select 1').then(
          () => true,
          () => false,
        )
      await until(works, () => 'the target cannot connect again')
    }
    return cut
  }

  async clear(): Promise<void> {
    for (const table of [
      'outbox',
      'parked',
      'redrives',
      'leases',
      'local_outbox',
      'local_parked',
      'subscriptions',
    ])
      await this.sql(`delete from ${this.tables}${table}`)
  }

  protected abstract connect(url: string): void
  /** Name, owner and term of the leases of shards that are in force, by name. */
  protected abstract heldRows(): Promise<readonly Row[]>
  /** @returns the number of other connections that were ended */
  protected abstract endConnections(): Promise<number>

  abstract close(): Promise<void>
  abstract sql(text: string, parameters?: readonly unknown[]): Promise<readonly Row[]>
  abstract backlog(): Promise<readonly BacklogRow[]>
  abstract parked(): Promise<readonly ParkedRow[]>
  abstract fill(messages: number): Promise<void>
  abstract expireLeases(owner?: string): Promise<void>
  abstract lend(shard: number, lease: { owner: string; term: bigint; forMs: number }): Promise<void>
  abstract transactions(): Promise<readonly ServerTransaction[]>
  abstract connections(): Promise<number>
}

/** Where the database of a target is. */
export async function databaseUrl(target: Target): Promise<string> {
  const [serverUrl] = inject('needs').map((name) => inject('servers')[name])
  const url = new URL(serverUrl ?? '')
  const current = target.engine === 'postgres' ? 'current_database()' : 'database()'
  const [row] = await target.sql(`select ${current} as name`)
  url.pathname = `/${String(row?.['name'])}`
  return url.href
}
