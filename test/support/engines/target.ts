import { afterAll, afterEach, beforeAll, describe, inject } from 'vitest'
import type { ConnectedDatabase, Database, TransactionHandle } from '@txbox/core'
import type { Proxy } from '../worlds/proxy.ts'
import './provided.ts'
import { MysqlTarget } from './mysql-target.ts'
import { PgliteTarget } from './pglite-target.ts'
import { PostgresTarget } from './postgres-target.ts'

/** 'snapshot isolation' is MariaDB's REPEATABLE READ with innodb_snapshot_isolation, its default from 11.6.2. */
export type Isolation = 'read committed' | 'repeatable read' | 'snapshot isolation'
export const ISOLATIONS: readonly Isolation[] = [
  'read committed',
  // PGlite has one connection for all roots.
  ...(inject('needs').includes('pglite') ? [] : (['repeatable read'] as const)),
  ...(inject('hasSnapshotIsolation') ? (['snapshot isolation'] as const) : []),
]

export type Row = Readonly<Record<string, unknown>>

/** An open transaction of a caller of the inbox. SQL in tests uses `?` for a parameter, on every engine. */
export interface OpenTransaction {
  readonly tx: TransactionHandle
  exec(sql: string, parameters?: readonly unknown[]): Promise<readonly Row[]>
  savepoint(name: string): Promise<void>
  rollbackTo(name: string): Promise<void>
  /** Ends the transaction and releases its connection. */
  commit(): Promise<void>
  rollback(): Promise<void>
}

/** The value that a user passes as `db`, with the database that txbox creates from it. */
export interface Root {
  readonly db: object
  readonly database: ConnectedDatabase<TransactionHandle>
  /** Connects, for a library whose root does not connect by itself. */
  ready?(): Promise<void>
  begin(): Promise<OpenTransaction>
  /** Rolls back what a failed test has left open: its locks would make the tests after it fail, too. */
  rollBackAll(): Promise<void>
  /** Rolls back what is still open, so that it does not hang. */
  close(): Promise<void>
}

export interface RootOptions {
  /** The level of all transactions of this root, also of `run`. @default the server's: READ COMMITTED or REPEATABLE READ */
  readonly isolation?: Isolation | undefined
  /** The number of connections. @default 4 */
  readonly max?: number
  /** Connects through this proxy instead of directly. */
  readonly through?: Pick<Proxy, 'address'>
  /** Connects as another user, or to another database of the server. */
  readonly as?: { readonly user?: string; readonly database?: string }
  /** Options of the database object, such as another schema. */
  readonly schema?: string
}

/** A library, or a way of using one, whose transactions the inbox must accept. */
export interface HandleKind {
  readonly name: string
  /** 'kysely', 'pg', 'mysql2', or the name of a library in `test/libraries`. */
  readonly library: string
  /** The driver that txbox finds under the library's transactions; the errors of an aborted transaction depend on it. */
  readonly driver: 'kysely' | 'pg' | 'mysql2' | 'hidden'
  /** The client sends statements without waiting for the answers to earlier statements. */
  readonly pipelined: boolean
  /** A defect of the library in this version: a BEGIN that fails leaves its connection taken. */
  readonly losesConnectionAtBegin?: boolean
  /** A defect of the library: COMMIT on a connection that has broken ends the process. */
  readonly endsProcessWhenBroken?: boolean
  /** The library hides its connection, so that a handler that hangs cannot be given up. */
  readonly hidesConnection?: boolean
  /** `run` sends BEGIN and the claim together. */
  readonly joinsBegin: boolean
  /** Round trips where the state of a transaction is hidden. @default none */
  readonly extraRoundTrips?: ExtraRoundTrips
}

/** Whether only the server knows of an error that aborted a transaction before txbox first saw the transaction. */
export function onlyServerKnows(target: Pick<Target, 'engine'>, { driver }: HandleKind): boolean {
  return driver === 'mysql2' || (driver === 'hidden' && target.engine !== 'postgres')
}

/** Statements by which txbox asks the server for the state of a transaction that a library hides. */
export interface ExtraRoundTrips {
  /** Statements in a transaction that txbox has not opened. */
  readonly perCall: number
  /** Statements after a message or a claim has been stored. @default 0 */
  readonly perWrite?: number
  /** Statements around each handler. */
  readonly afterHandler: number
}

/** A row of the inbox table. */
export interface ClaimRow {
  readonly key: string
  readonly correlationId: string | null
  readonly processedAt: Date
  readonly expiresAt: Date
}

/**
 * A database under test: a fresh, migrated database on a real server. All methods but `open` read or change the database
 * on a separate connection, in autocommit.
 */
export interface Target {
  readonly engine: 'postgres' | 'mysql' | 'mariadb'
  /** The name of the outbox, for SQL in tests. */
  readonly outboxTable: string
  /** Round trips. */
  readonly costs: {
    readonly fresh: number
    readonly duplicate: number
    readonly freshBatch: number
    readonly mixedBatch: number
  }
  /** Whether a delivery that waited for a winner gets a conflict instead of a duplicate. */
  waitersMustRetry(isolation: Isolation): boolean
  /** Whether a row that is newer than the transaction's snapshot can be neither changed nor locked. */
  refusesNewer(isolation: Isolation): boolean
  /** Whether an INSERT that finds its key claimed locks the existing row, so that no other transaction removes it. */
  readonly failedInsertLocks: boolean
  readonly kinds: readonly HandleKind[]
  /** The address of the server. */
  address(): { host: string; port: number }
  open(kind: HandleKind, options?: RootOptions): Root
  /** A root with unusual settings, which must not matter. */
  openOdd(odd: string): Root
  readonly oddities: readonly string[]
  /** The database without connections: `postgres()`. */
  detached(options?: { schema?: string }): Database
  migrate(options?: { schema?: string }): Promise<readonly string[]>
  /** Records a revision of the tables that this version does not know yet, or no longer. */
  pretendRevision(revision: 'later' | 'earlier'): Promise<void>
  /** SQL through a handle of any kind, for use in handlers. */
  exec(tx: TransactionHandle, sql: string, parameters?: readonly unknown[]): Promise<readonly Row[]>
  sql(text: string, parameters?: readonly unknown[]): Promise<readonly Row[]>
  /** The effect of a handler: a row in the table `effects`. */
  effect(tx: TransactionHandle, name: string): Promise<void>
  /** How many committed effects of this name there are. */
  effects(name: string): Promise<number>
  /** The committed claims of a consumer. */
  claims(consumer: string): Promise<readonly ClaimRow[]>
  /** Makes the claims of a consumer, or the one of a key, expire a second ago. */
  expire(consumer: string, key?: string): Promise<void>
  /** By the database's clock. */
  now(): Promise<Date>
  /** Resolves when the database's clock has passed this instant. */
  past(instant: Date): Promise<void>
  /** Resolves when this many connections are blocked by a lock of another session. */
  blocked(count: number): Promise<void>
  /** A statement of the transaction that waits for a lock longer than this fails. */
  limitLockWait(transaction: OpenTransaction, ms: number): Promise<void>
  isolationOf(transaction: OpenTransaction): Promise<string>
  /** Whether the transaction has changed anything, as the server reports. */
  hasWritten(transaction: OpenTransaction): Promise<boolean>
  /** Ways in which a statement fails and aborts the transaction. Each rejects with the driver's error. */
  readonly abortions: Readonly<Record<string, (tx: TransactionHandle) => Promise<unknown>>>
  /** Prepares a state in which one statement aborts the transaction. @returns a function that sends it at once */
  prepareAbortion(tx: TransactionHandle): Promise<() => Promise<unknown>>
  /** Ways in which a statement fails so that a savepoint can recover the transaction. */
  readonly recoverable: Readonly<Record<string, (tx: TransactionHandle) => Promise<unknown>>>
  /** Makes a change that only COMMIT refuses. Absent if the engine checks everything at once. */
  failAtCommit?(tx: TransactionHandle): Promise<void>
  isDeadlock(error: unknown): boolean
  /** Handles that are not an open transaction, as users may pass them. */
  readonly strayHandles: readonly string[]
  withStrayHandle(name: string, work: (handle: object) => Promise<void>): Promise<void>
  /** Lets the server kill the connection of an open transaction. */
  kill(transaction: OpenTransaction): Promise<void>
  close(): Promise<void>
}

/**
 * The kind of handle with which this project runs every rule, and which tests use that need only one. It rotates, so that
 * each library is the main one of some database.
 */
export function mainKind(target: Pick<Target, 'kinds'>): HandleKind {
  const library = inject('library')
  const kind = target.kinds.find((each) => each.library === library)
  if (kind === undefined) throw new Error(`No kind of handle belongs to the library '${library}'.`)
  return kind
}

/** The isolation level at which this project runs the rules for which the level makes no difference. */
function usualIsolation(): Isolation {
  const isolation = inject('isolation')
  return isolation === 'server default' ? ISOLATIONS.at(-1)! : isolation
}

/**
 * Gives a test file its own database before its first test: a new one, or one that an earlier file of the same process has
 * left as the migration had made it.
 */
export function useTarget(options: { migrated: boolean } = { migrated: true }): Target {
  const target = targetOf(inject('engine'))
  beforeAll(async () => {
    const [serverUrl] = inject('needs').map((name) => inject('servers')[name])
    if (serverUrl === undefined) throw new Error('The project has no server.')
    await target.create(serverUrl, options)
  })
  afterAll(() => target.close())
  return target
}

function targetOf(engine: Target['engine']): PostgresTarget | MysqlTarget {
  if (engine !== 'postgres') return new MysqlTarget(engine)
  return inject('needs').includes('pglite') ? new PgliteTarget() : new PostgresTarget()
}

/** A root for a describe block. */
export function useRoot(target: Target, kind: HandleKind, options: RootOptions = {}): Root {
  let root: Root | undefined
  const opened = (): Root => {
    if (root === undefined) throw new Error('The root is opened before the first test.')
    return root
  }
  beforeAll(async () => {
    root = target.open(kind, options)
    await root.ready?.()
  })
  afterEach(({ task }) => (task.result?.state === 'fail' ? root?.rollBackAll() : undefined))
  afterAll(() => root?.close())
  return {
    get db() {
      return opened().db
    },
    get database() {
      return opened().database
    },
    begin: () => opened().begin(),
    rollBackAll: () => opened().rollBackAll(),
    close: () => opened().close(),
  }
}

/** The kinds of handle of this tier. */
export function kindsOfTier(target: Target): readonly HandleKind[] {
  return inject('tier') === 'all' ? target.kinds : [mainKind(target)]
}

/** The same tests on every kind of handle of the engine; in the quick tier on the project's main kind. */
export function onEachKind(target: Target, tests: (kind: HandleKind) => void): void {
  for (const kind of kindsOfTier(target)) describe(kind.name, () => tests(kind))
}

type IsolationTests = (kind: HandleKind, isolation: Isolation) => void

/** Runs the same tests on every kind of handle, at every isolation level: for rules that the level can affect. */
export function onEachKindAndIsolation(target: Target, tests: IsolationTests): void {
  onEachLevel(target, kindsOfTier(target), ISOLATIONS, tests)
}

/** Like `onEachKindAndIsolation`, but the quick tier uses one level: for rules that the level must not affect. */
export function onEachKindAtUsualIsolation(target: Target, tests: IsolationTests): void {
  onEachLevel(target, kindsOfTier(target), levelsOfTier(), tests)
}

/** The same tests on every kind of root, at every isolation level. */
export function onEachRootAndIsolation(target: Target, tests: IsolationTests): void {
  onEachLevel(target, kindsOfRoots(target), ISOLATIONS, tests)
}

/** Like `onEachRootAndIsolation`, but the quick tier uses one level. */
export function onEachRootAtUsualIsolation(target: Target, tests: IsolationTests): void {
  onEachLevel(target, kindsOfRoots(target), levelsOfTier(), tests)
}

function levelsOfTier(): readonly Isolation[] {
  return inject('tier') === 'all' ? ISOLATIONS : [usualIsolation()]
}

/** MariaDB's REPEATABLE READ of before 11.6.2 is that of MySQL, where it is tested on all kinds. */
function onEachLevel(
  target: Target,
  kinds: readonly HandleKind[],
  levels: readonly Isolation[],
  tests: IsolationTests,
): void {
  for (const isolation of levels) {
    const asOnMysql = inject('hasSnapshotIsolation') && isolation === 'repeatable read'
    for (const kind of asOnMysql ? [mainKind(target)] : kinds) {
      describe(`${kind.name}, ${isolation}`, () => tests(kind, isolation))
    }
  }
}

/**
 * The kinds of this tier whose roots differ: for what does not depend on the transactions of a caller, such as the relay.
 * Of several kinds with the same root it is the last one, which has the rarer settings (no FOUND_ROWS).
 */
export function kindsOfRoots(target: Target): readonly HandleKind[] {
  // The drivers of MariaDB are those of MySQL, where every root is tested.
  if (target.engine === 'mariadb') return [mainKind(target)]
  const rootOf = ({ library, pipelined }: HandleKind): string => `${library} ${pipelined}`
  const kinds = kindsOfTier(target)
  return kinds.filter((kind, n) => n === kinds.findLastIndex((other) => rootOf(other) === rootOf(kind)))
}

/**
 * The root of the project's main library: for rules that only the relay's or the collector's statements decide, whatever
 * library sends them. Of several such roots it is the last one, which has the rarer settings.
 */
export function mainRoot(target: Target): HandleKind {
  const main = mainKind(target)
  return kindsOfRoots(target).findLast(({ library }) => library === main.library) ?? main
}

/** The same tests on the main root. */
export function onMainRoot(target: Target, tests: (kind: HandleKind) => void): void {
  const kind = mainRoot(target)
  describe(kind.name, () => tests(kind))
}

/** The same tests on every kind of root. */
export function onEachRoot(target: Target, tests: (kind: HandleKind) => void): void {
  for (const kind of kindsOfRoots(target)) describe(kind.name, () => tests(kind))
}
