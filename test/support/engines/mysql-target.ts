import { Kysely, MysqlDialect } from 'kysely'
import type { Pool } from 'mysql2/promise'
import type { Database, TransactionHandle } from '@txbox/core'
import { migrate, mysql } from '@txbox/mysql'
import { libraryKinds, libraryRootOn } from './library-roots.ts'
import { mysqlKinds } from './mysql-kinds.ts'
import { oddRoots, strayHandles } from './mysql-oddities.ts'
import { poolOf, setupOf } from './mysql-pool.ts'
import { execOn, kyselyRoot, mysql2Root } from './mysql-roots.ts'
import { dropMysqlTables, emptyMysql, mysqlState } from './mysql-state.ts'
import { openTransactions } from './mysql-status.ts'
import { ServerTarget } from './server-target.ts'
import { createDatabase } from './servers/mysql-databases.ts'
import type {
  ClaimRow,
  HandleKind,
  Isolation,
  OpenTransaction,
  Root,
  RootOptions,
  Row,
  Target,
} from './target.ts'
import { until } from '../worlds/until.ts'

/** MySQL, or MariaDB. */
export class MysqlTarget extends ServerTarget {
  readonly engine: 'mysql' | 'mariadb'
  readonly kinds: readonly HandleKind[] = libraryKinds ?? mysqlKinds
  readonly outboxTable = 'txbox_outbox'
  readonly failedInsertLocks = true
  readonly costs = { fresh: 1, duplicate: 2, freshBatch: 1, mixedBatch: 2 }
  protected readonly clock = 'utc_timestamp(6)'
  protected readonly usualPort = 3306
  /** A deadlock: the server rolls the whole transaction back, and each later statement commits by itself. */
  readonly abortions: Target['abortions'] = {
    'a deadlock': async (tx) => (await this.prepareAbortion(tx))(),
  }
  readonly recoverable: Target['recoverable'] = {
    'a table that is not there': (tx) => execOn(tx, 'select * from no_such_table', []),
    'a violated constraint': (tx) => execOn(tx, 'insert into effects (name) values (?)', [null]),
    'a statement that was cancelled': (tx) => this.#cancelled(tx),
  }
  #observer: Pool | undefined
  #deadlocks = 0

  constructor(engine: 'mysql' | 'mariadb') {
    super({ oddRoots, strayHandles })
    this.engine = engine
  }

  protected createDatabase(serverUrl: string): ReturnType<typeof createDatabase> {
    return createDatabase(serverUrl)
  }

  protected async openObserver(): Promise<void> {
    this.#observer = poolOf(this.url, { connectionLimit: 2, timezone: 'Z' }).promise()
  }

  protected async createTables(): Promise<void> {
    await this.sql(
      'create table effects (seq bigint unsigned not null auto_increment primary key, name varchar(700) not null)',
    )
    await this.sql('create table counters (name varchar(200) primary key, n integer not null)')
    await this.sql('create table ballast (n bigint unsigned not null auto_increment primary key)')
  }

  waitersMustRetry(): boolean {
    // The row is read with a lock, which also sees newer rows, and a waiting transaction has no snapshot yet.
    return false
  }

  refusesNewer(isolation: Isolation): boolean {
    return isolation === 'snapshot isolation'
  }

  open(kind: HandleKind, options: RootOptions = {}): Root {
    if (libraryKinds !== undefined) return libraryRootOn(this.urlFor(options), options)
    const style = kind.name.includes('callback') ? 'callback' : 'promise'
    const pool = poolOf(
      this.urlFor(options),
      { connectionLimit: options.max ?? 4, ...(style === 'callback' && { flags: ['-FOUND_ROWS'] }) },
      setupOf(options),
    )
    if (kind.library === 'mysql2') return mysql2Root(pool, options, style)
    return kyselyRoot(new Kysely({ dialect: new MysqlDialect({ pool }) }), options)
  }

  detached(options: { schema?: string } = {}): Database {
    const { schema, ...rest } = options
    return mysql({ ...rest, ...('schema' in options && { prefix: schema }) })
  }

  async migrate(options: { schema?: string } = {}): Promise<readonly string[]> {
    return (await migrate(this.#pool(), options.schema === undefined ? {} : { prefix: options.schema }))
      .applied
  }

  async pretendRevision(revision: 'later' | 'earlier'): Promise<void> {
    if (revision === 'later')
      await this.sql("insert into txbox_migrations values (9999, 'future', utc_timestamp(6))")
    else await this.sql('delete from txbox_migrations order by number desc limit 1')
  }

  exec(tx: TransactionHandle, sql: string, parameters: readonly unknown[] = []): Promise<readonly Row[]> {
    return execOn(tx, sql, parameters)
  }

  async sql(text: string, parameters: readonly unknown[] = []): Promise<readonly Row[]> {
    const [rows] = await this.#pool().query(text, [...parameters])
    return Array.isArray(rows) ? (rows as Row[]) : []
  }

  async claims(consumer: string): Promise<readonly ClaimRow[]> {
    const rows = await this.sql(
      `select cast(\`key\` as char character set utf8mb4) as \`key\`, correlation_id as correlationId,
         processed_at as processedAt, expires_at as expiresAt
       from txbox_inbox where consumer = ? order by txbox_inbox.\`key\``,
      [Buffer.from(consumer)],
    )
    return rows as unknown as readonly ClaimRow[]
  }

  async expire(consumer: string, key?: string): Promise<void> {
    await this.sql(
      `update txbox_inbox set expires_at = utc_timestamp(6) - interval 1 second
       where consumer = ? and (? is null or \`key\` = ?)`,
      [Buffer.from(consumer), key ?? null, Buffer.from(key ?? '')],
    )
  }

  async limitLockWait(transaction: OpenTransaction, ms: number): Promise<void> {
    await transaction.exec(`set session innodb_lock_wait_timeout = ${Math.max(1, Math.ceil(ms / 1000))}`)
  }

  async isolationOf(transaction: OpenTransaction): Promise<string> {
    // Before MariaDB 11.1 it is tx_isolation.
    const [row] = await transaction.exec(
      "show session variables where variable_name regexp '^(transaction|tx)_isolation$'",
    )
    const [snapshot] = await transaction.exec("show session variables like 'innodb_snapshot_isolation'")
    const level = String(row?.['Value']).toLowerCase().replace('-', ' ')
    return level === 'repeatable read' && snapshot?.['Value'] === 'ON' ? 'snapshot isolation' : level
  }

  async hasWritten(transaction: OpenTransaction): Promise<boolean> {
    const id = await this.connectionOf(transaction)
    const open = await openTransactions((text) => this.sql(text))
    return open.some(({ thread, hasWritten }) => thread === id && hasWritten)
  }

  isDeadlock(error: unknown): boolean {
    return typeof error === 'object' && error !== null && Reflect.get(error, 'errno') === 1213
  }

  protected async closeObserver(): Promise<void> {
    await this.#observer?.end()
  }

  protected state(): Promise<string> {
    return mysqlState((text) => this.sql(text))
  }

  protected dropOtherTables(): Promise<void> {
    return dropMysqlTables((text) => this.sql(text))
  }

  protected empty(): Promise<void> {
    return emptyMysql((text) => this.sql(text))
  }

  protected async otherConnections(): Promise<number> {
    const [row] = await this.sql(
      'select count(*) as n from information_schema.processlist where db = database() and id <> connection_id()',
    )
    return Number(row?.['n'])
  }

  protected async connectionOf(transaction: OpenTransaction): Promise<number> {
    const [row] = await transaction.exec('select connection_id() as id')
    return Number(row?.['id'])
  }

  protected async endConnection(connection: number): Promise<void> {
    await this.sql(`kill ${connection}`)
  }

  protected async isConnected(connection: number): Promise<boolean> {
    const rows = await this.sql('select 1 from information_schema.processlist where id = ?', [connection])
    return rows.length > 0
  }

  protected async blockedConnections(): Promise<number> {
    if (this.engine === 'mariadb') {
      const open = await openTransactions((text) => this.sql(text))
      return open.filter(({ waits }) => waits).length
    }
    // MySQL does not list transactions that wait before they have changed anything.
    const [row] = await this.sql(
      `select count(distinct w.requesting_thread_id) as n
       from performance_schema.data_lock_waits as w
       join performance_schema.data_locks as l on l.engine_lock_id = w.requesting_engine_lock_id
       where l.object_schema = database()`,
    )
    return Number(row?.['n'])
  }

  /** A deadlock. The other transaction has written more, so that the server chooses this one as the victim. */
  async prepareAbortion(tx: TransactionHandle): Promise<() => Promise<unknown>> {
    const [first, second] = [`deadlock-${(this.#deadlocks += 1)}-1`, `deadlock-${this.#deadlocks}-2`]
    await this.sql('insert into counters (name, n) values (?, 0), (?, 0)', [first, second])
    // Before the other transaction begins: if the snapshot is older than these rows, this is a conflict and ends here.
    await execOn(tx, 'update counters set n = 1 where name = ?', [second])
    const heavy = await this.#pool().getConnection()
    await heavy.beginTransaction()
    await heavy.query(`insert into ballast values ${Array(200).fill('()').join(',')}`)
    await heavy.query('update counters set n = 1 where name = ?', [first])
    const crossing = heavy.query('update counters set n = 1 where name = ?', [second])
    const over = crossing
      .then(() => heavy.rollback())
      .catch(() => undefined)
      .then(() => heavy.release())
    return async () => {
      try {
        return await execOn(tx, 'update counters set n = 1 where name = ?', [first])
      } finally {
        await over
      }
    }
  }

  async #cancelled(tx: TransactionHandle): Promise<unknown> {
    const [row] = await execOn(tx, 'select connection_id() as id', [])
    const sleeping = execOn(tx, 'select count(*) from effects where sleep(10) = 0', [])
    const rejected = sleeping.then(
      () => false,
      () => true,
    )
    await this.sql('insert into ballast values ()')
    await until(
      async () => {
        await this.sql(`kill query ${String(row?.['id'])}`)
        return Promise.race([rejected, new Promise<boolean>((resolve) => setTimeout(resolve, 20, false))])
      },
      () => 'the statement was not cancelled',
    ).catch(() => undefined)
    return sleeping
  }

  #pool(): Pool {
    if (this.#observer === undefined) throw new Error('The database is created before the first test.')
    return this.#observer
  }
}
