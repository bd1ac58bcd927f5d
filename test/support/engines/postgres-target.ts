import { Kysely, PostgresDialect } from 'kysely'
import type { Pool } from 'pg'
import type { Database, TransactionHandle } from '@txbox/core'
import { migrate, postgres } from '@txbox/postgres'
import { libraryKinds, libraryRootOn } from './library-roots.ts'
import { abortions, oddRoots, strayHandles } from './postgres-oddities.ts'
import { dropPostgresTables, emptyPostgres, postgresState } from './postgres-state.ts'
import { numbered, poolOf, settingsOf } from './postgres-pool.ts'
import { execOn, kyselyRoot, pgRoot } from './postgres-roots.ts'
import { ServerTarget } from './server-target.ts'
import { createDatabase } from './servers/postgres-databases.ts'
import type { ClaimRow, HandleKind, Isolation, OpenTransaction, Root, RootOptions, Row } from './target.ts'

export const postgresKinds: readonly HandleKind[] = [
  { name: 'Kysely transaction', library: 'kysely', driver: 'kysely', pipelined: false, joinsBegin: false },
  { name: 'pg client', library: 'pg', driver: 'pg', pipelined: false, joinsBegin: true },
  { name: 'pg client with pipeline', library: 'pg', driver: 'pg', pipelined: true, joinsBegin: true },
]

export class PostgresTarget extends ServerTarget {
  readonly engine = 'postgres'
  readonly kinds: readonly HandleKind[] = libraryKinds ?? postgresKinds
  readonly outboxTable = 'txbox.outbox'
  readonly failedInsertLocks = false
  readonly abortions = abortions
  readonly recoverable = abortions
  readonly costs = { fresh: 1, duplicate: 2, freshBatch: 1, mixedBatch: 1 }
  protected readonly clock = 'clock_timestamp()'
  protected override readonly effectsTable = 'public.effects'
  protected readonly usualPort = 5432
  #observer: Pool | undefined

  constructor(strangers: ConstructorParameters<typeof ServerTarget>[0] = { oddRoots, strayHandles }) {
    super(strangers)
  }

  protected createDatabase(serverUrl: string): ReturnType<typeof createDatabase> {
    return createDatabase(serverUrl)
  }

  protected async openObserver(): Promise<void> {
    this.#observer = poolOf(this.url, { max: 2 })
  }

  protected async createTables(): Promise<void> {
    // By default deadlocks are found after a second; a superuser may shorten this time.
    const { pathname } = new URL(this.url)
    await this.sql(`alter database ${pathname.slice(1)} set deadlock_timeout = '50ms'`).catch(() => undefined)
    await this.createTestTables()
  }

  protected async createTestTables(): Promise<void> {
    await this.sql(
      'create table effects (seq bigint generated always as identity primary key, name text not null)',
    )
    await this.sql('create table counters (name text primary key, n integer not null)')
  }

  waitersMustRetry(isolation: Isolation): boolean {
    // The winner's row is not in the snapshot of a delivery that waited: 40001.
    return isolation === 'repeatable read'
  }

  refusesNewer(isolation: Isolation): boolean {
    return isolation === 'repeatable read'
  }

  open(kind: HandleKind, options: RootOptions = {}): Root {
    if (libraryKinds !== undefined) return libraryRootOn(this.urlFor(options), options)
    const pool = poolOf(this.urlFor(options), {
      max: options.max ?? 4,
      pipeline: kind.pipelined,
      ...settingsOf(options),
    })
    if (kind.library === 'pg') return pgRoot(pool, options)
    return kyselyRoot(new Kysely({ dialect: new PostgresDialect({ pool }) }), options)
  }

  detached(options: { schema?: string } = {}): Database {
    return postgres(options)
  }

  async migrate(options: { schema?: string } = {}): Promise<readonly string[]> {
    return (await migrate(this.#pool(), options)).applied
  }

  async pretendRevision(revision: 'later' | 'earlier'): Promise<void> {
    if (revision === 'later')
      await this.sql("insert into txbox.migrations (number, title) values (9999, 'future')")
    else
      await this.sql('delete from txbox.migrations where number = (select max(number) from txbox.migrations)')
  }

  exec(tx: TransactionHandle, sql: string, parameters: readonly unknown[] = []): Promise<readonly Row[]> {
    return execOn(tx, sql, parameters)
  }

  async sql(text: string, parameters: readonly unknown[] = []): Promise<readonly Row[]> {
    return (await this.#pool().query<Row>(numbered(text), [...parameters])).rows
  }

  async claims(consumer: string): Promise<readonly ClaimRow[]> {
    const rows = await this.sql(
      `select key, correlation_id as "correlationId", processed_at as "processedAt", expires_at as "expiresAt"
       from txbox.inbox where consumer = ? order by key`,
      [consumer],
    )
    return rows as unknown as readonly ClaimRow[]
  }

  async expire(consumer: string, key?: string): Promise<void> {
    await this.sql(
      `update txbox.inbox set expires_at = clock_timestamp() - interval '1 second'
       where consumer = ? and (key = ? or ?::boolean)`,
      [consumer, key ?? '', key === undefined],
    )
  }

  async limitLockWait(transaction: OpenTransaction, ms: number): Promise<void> {
    await transaction.exec(`set local lock_timeout = ${ms}`)
  }

  async isolationOf(transaction: OpenTransaction): Promise<string> {
    const [row] = await transaction.exec("select current_setting('transaction_isolation') as level")
    return String(row?.['level'])
  }

  async hasWritten(transaction: OpenTransaction): Promise<boolean> {
    // PostgreSQL gives a transaction an id with its first write, and for a row lock too.
    const [row] = await transaction.exec('select pg_current_xact_id_if_assigned() is not null as wrote')
    return row?.['wrote'] === true
  }

  async prepareAbortion(tx: TransactionHandle): Promise<() => Promise<unknown>> {
    return () => execOn(tx, 'select * from no_such_table', [])
  }

  async failAtCommit(tx: TransactionHandle): Promise<void> {
    await execOn(tx, 'create temporary table at_commit (n int unique deferrable initially deferred)', [])
    await execOn(tx, 'insert into at_commit values (1), (1)', [])
  }

  isDeadlock(error: unknown): boolean {
    return typeof error === 'object' && error !== null && Reflect.get(error, 'code') === '40P01'
  }

  protected async closeObserver(): Promise<void> {
    await this.#observer?.end()
  }

  protected state(): Promise<string> {
    return postgresState((text) => this.sql(text))
  }

  protected dropOtherTables(): Promise<void> {
    return dropPostgresTables((text) => this.sql(text))
  }

  protected empty(): Promise<void> {
    return emptyPostgres((text) => this.sql(text))
  }

  protected async otherConnections(): Promise<number> {
    return (await this.#activity()).length
  }

  protected async blockedConnections(): Promise<number> {
    return (await this.#activity()).filter((row) => row['wait_event_type'] === 'Lock').length
  }

  protected override async describeBlocked(): Promise<string> {
    return JSON.stringify(await this.#activity(), undefined, 1)
  }

  protected async connectionOf(transaction: OpenTransaction): Promise<number> {
    const [row] = await transaction.exec('select pg_backend_pid() as pid')
    return Number(row?.['pid'])
  }

  protected async endConnection(connection: number): Promise<void> {
    await this.sql('select pg_terminate_backend(?)', [connection])
  }

  protected async isConnected(connection: number): Promise<boolean> {
    return (await this.sql('select 1 from pg_stat_activity where pid = ?', [connection])).length > 0
  }

  #activity(): Promise<readonly Row[]> {
    return this.sql(
      `select state, wait_event_type, wait_event, query from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`,
    )
  }

  #pool(): Pool {
    if (this.#observer === undefined) throw new Error('The database is created before the first test.')
    return this.#observer
  }
}
