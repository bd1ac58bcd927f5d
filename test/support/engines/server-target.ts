import type { Database, TransactionHandle } from '@txbox/core'
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
import { keepSpare, takeSpare } from './servers/spare-databases.ts'
import { until } from '../worlds/until.ts'

/** How to open a root with unusual settings, and a handle that is not an open transaction. */
interface Strangers {
  readonly oddRoots: Readonly<Record<string, (url: string) => Root>>
  readonly strayHandles: Readonly<
    Record<string, (url: string, work: (handle: object) => Promise<void>) => Promise<void>>
  >
}

/** The code for all databases under test. A class for each database contains its SQL and its drivers. */
export abstract class ServerTarget implements Target {
  abstract readonly engine: Target['engine']
  abstract readonly kinds: readonly HandleKind[]
  abstract readonly outboxTable: string
  abstract readonly failedInsertLocks: boolean
  abstract readonly costs: Target['costs']
  abstract readonly abortions: Target['abortions']
  abstract readonly recoverable: Target['recoverable']
  readonly oddities: readonly string[]
  readonly strayHandles: readonly string[]
  /** SQL for the database's clock, and for the table of effects from any schema. */
  protected abstract readonly clock: string
  protected readonly effectsTable: string = 'effects'
  protected abstract readonly usualPort: number
  protected url = ''
  readonly #strangers: Strangers
  #serverUrl = ''
  #drop: (() => Promise<void>) | undefined
  /** The state of the database after the migration, if the next file may take the database over. */
  #migratedState: string | undefined

  constructor(strangers: Strangers) {
    this.#strangers = strangers
    this.oddities = Object.keys(strangers.oddRoots)
    this.strayHandles = Object.keys(strangers.strayHandles)
  }

  /**
   * Takes a database of the server: a new one, or, if it is to be migrated, one that an earlier file of this process has
   * left as the migration had made it.
   */
  async create(serverUrl: string, options: { migrated: boolean }): Promise<void> {
    this.#serverUrl = serverUrl
    const spare = options.migrated ? takeSpare(serverUrl) : undefined
    const { url, drop } = spare ?? (await this.createDatabase(serverUrl))
    this.url = url
    this.#drop = drop
    await this.openObserver()
    this.#migratedState = spare?.state
    if (spare !== undefined) return
    await this.createTables()
    if (!options.migrated) return
    await this.migrate()
    this.#migratedState = await this.state()
  }

  /** Keeps the database for the next file, unless something of it but its rows has changed, and drops it otherwise. */
  async close(): Promise<void> {
    const { url } = this
    const drop = this.#drop ?? (() => Promise.resolve())
    const state = await this.#stateToKeep().catch(() => undefined)
    await this.closeObserver()
    if (state === undefined) await drop()
    else keepSpare(this.#serverUrl, { url, drop, state })
  }

  async #stateToKeep(): Promise<string | undefined> {
    if (this.#migratedState === undefined) return undefined
    // The observer goes on with one connection, the only one that may be left.
    await this.closeObserver()
    await this.openObserver()
    await until(
      async () => (await this.otherConnections()) === 0,
      () => 'connections are left',
      500,
    )
    await this.dropOtherTables()
    if ((await this.state()) !== this.#migratedState) return undefined
    await this.empty()
    return this.state()
  }

  address(): { host: string; port: number } {
    const { hostname, port } = new URL(this.url)
    return { host: hostname, port: port === '' ? this.usualPort : Number(port) }
  }

  /** The address for a root: through a proxy, as another user, or of another database. */
  protected urlFor({ through, as }: RootOptions): string {
    const url = new URL(this.url)
    if (through !== undefined) {
      url.hostname = through.address.host
      url.port = String(through.address.port)
    }
    url.username = as?.user ?? url.username
    url.pathname = as?.database ?? url.pathname
    return url.href
  }

  openOdd(odd: string): Root {
    const open = this.#strangers.oddRoots[odd]
    if (open === undefined) throw new Error(`There is no odd root '${odd}'.`)
    return open(this.url)
  }

  async withStrayHandle(name: string, work: (handle: object) => Promise<void>): Promise<void> {
    const lend = this.#strangers.strayHandles[name]
    if (lend === undefined) throw new Error(`There is no stray handle '${name}'.`)
    await lend(this.url, work)
  }

  async effect(tx: TransactionHandle, name: string): Promise<void> {
    await this.exec(tx, `insert into ${this.effectsTable} (name) values (?)`, [name])
  }

  async effects(name: string): Promise<number> {
    const [row] = await this.sql('select count(*) as n from effects where name = ?', [name])
    return Number(row?.['n'])
  }

  async now(): Promise<Date> {
    const [row] = await this.sql(`select ${this.clock} as now`)
    return row?.['now'] as Date
  }

  async past(instant: Date): Promise<void> {
    await until(
      async () => (await this.now()) > instant,
      () => `the database's clock has not reached ${instant.toISOString()}`,
    )
  }

  async blocked(count: number): Promise<void> {
    await until(
      async () => (await this.blockedConnections()) >= count,
      async () => `${count} blocked connections. There are ${await this.describeBlocked()}`,
    )
  }

  async kill(transaction: OpenTransaction): Promise<void> {
    const connection = await this.connectionOf(transaction)
    await this.endConnection(connection)
    await until(
      async () => !(await this.isConnected(connection)),
      () => `connection ${connection} is still there`,
    )
  }

  protected async describeBlocked(): Promise<string> {
    return String(await this.blockedConnections())
  }

  protected abstract createDatabase(serverUrl: string): Promise<{ url: string; drop: () => Promise<void> }>
  protected abstract openObserver(): Promise<void>
  protected abstract closeObserver(): Promise<void>
  /** Creates the tables of the tests themselves. */
  protected abstract createTables(): Promise<void>
  /** Describes everything of the database but the rows of its tables. */
  protected abstract state(): Promise<string>
  /** Drops the tables that a file has created for itself. */
  protected abstract dropOtherTables(): Promise<void>
  /** Empties the tables. */
  protected abstract empty(): Promise<void>
  /** The number of connections to the database besides the one that asks. */
  protected abstract otherConnections(): Promise<number>
  protected abstract blockedConnections(): Promise<number>
  protected abstract connectionOf(transaction: OpenTransaction): Promise<number>
  protected abstract endConnection(connection: number): Promise<void>
  protected abstract isConnected(connection: number): Promise<boolean>

  abstract waitersMustRetry(isolation: Isolation): boolean
  abstract refusesNewer(isolation: Isolation): boolean
  abstract open(kind: HandleKind, options?: RootOptions): Root
  abstract detached(options?: { schema?: string }): Database
  abstract migrate(options?: { schema?: string }): Promise<readonly string[]>
  abstract pretendRevision(revision: 'later' | 'earlier'): Promise<void>
  abstract exec(tx: TransactionHandle, sql: string, parameters?: readonly unknown[]): Promise<readonly Row[]>
  abstract sql(text: string, parameters?: readonly unknown[]): Promise<readonly Row[]>
  abstract claims(consumer: string): Promise<readonly ClaimRow[]>
  abstract expire(consumer: string, key?: string): Promise<void>
  abstract limitLockWait(transaction: OpenTransaction, ms: number): Promise<void>
  abstract isolationOf(transaction: OpenTransaction): Promise<string>
  abstract hasWritten(transaction: OpenTransaction): Promise<boolean>
  abstract prepareAbortion(tx: TransactionHandle): Promise<() => Promise<unknown>>
  abstract isDeadlock(error: unknown): boolean
}
