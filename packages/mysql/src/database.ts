/*
 * On MySQL and MariaDB, tables have a prefix, and the first use asks for the traits of the server. On PostgreSQL,
 * tables are in a schema, and NOTIFY is available.
 */
import {
  portsKey,
  type ConnectedDatabase,
  type Database,
  type NoRoot,
  type Session,
  type TransactionLibrary,
  type PostgresPoolLike,
  type RootOf,
  type TransactionOf,
} from '@txbox/core'
import type { ConnectedPorts, DatabasePorts, RowStore, TableStore } from '@txbox/core/ports'
import { OptionChecker } from '@txbox/core/internal'
import { CHECKING, LEASE_TIMEOUT_MS, type RunStatement } from '@txbox/sql/stores'
import {
  CHECK_TIMEOUT_MS,
  GARBAGE_TIMEOUT_MS,
  assertTwoConnections,
  lossOn,
  publicTransact,
  resolverOption,
  transactOn,
  useConnections,
  translatingErrors,
  type Resolver,
  type RootAdapter,
  type SqlResult,
} from '@txbox/sql/transactions'
import { deadLetterStore } from './operate/dead-letter-store.ts'
import { dedupLeaseStore } from './dedup/dedup-lease-store.ts'
import { TABLE_ACCESS_DENIED, errors, numberOf } from './connection/errors.ts'
import { garbageStore } from './operate/garbage-store.ts'
import { removalStore } from './operate/removal-store.ts'
import { DEFAULT_PREFIX, tablesOf, type Tables } from './connection/identifiers.ts'
import { MysqlInboxStore } from './inbox/inbox-store.ts'
import { inspectionStore } from './operate/inspection-store.ts'
import { MysqlLeaseStore } from './relay/lease-store.ts'
import { MysqlLocalStore } from './local/local-store.ts'
import { MysqlSubscriptionStore } from './local/subscription-store.ts'
import { migrationStatements } from './tables/migration-statements.ts'
import { MysqlOutboxStore } from './outbox/outbox-store.ts'
import { MysqlQueueSender } from './queue/queue-sender.ts'
import { MysqlQueueStore } from './queue/queue-store.ts'
import { MysqlRelayStore } from './relay/relay-store.ts'
import { bindAlone } from './rows/bind-alone.ts'
import { MysqlRowStore } from './rows/row-store.ts'
import type { MysqlStatementRoot } from './connection/run-alone.ts'
import { tableStore } from './tables/migrate.ts'
import { checkOwnConnection, checkRevision } from './tables/schema-revision.ts'
import type { ServerTraits } from './connection/server.ts'
import { assertOpen, bind, execute, openedSession, watch, type MysqlSession } from './connection/session.ts'
import { MysqlVersionBufferStore } from './versions/version-buffer-store.ts'

export interface MysqlOptions {
  /** The prefix of the names of txbox's tables, 1 to 51 characters, not ending with `local_` or `dedup_`. @default 'txbox_' */
  prefix?: string | undefined
  /** Descriptions of libraries that txbox does not know by itself, made with `defineLibrary`. @default none */
  libraries?: readonly TransactionLibrary[] | undefined
}

/**
 * Creates a database for MySQL 8.0.19 or later, or MariaDB 10.6 or later, on your own root, a Kysely or a `mysql2`
 * promise pool: for `inbox.run`, the relay and all other features. Opens no connection by itself. The first use detects
 * which of the two the server is, and whether it is supported.
 *
 * @throws {InvalidOptionError} for a wrong option, or a `db` that opens no transactions.
 */
export function mysql<D extends object>(
  options: MysqlOptions & {
    /** Your own root: a `mysql2` promise pool, or the root of a library such as Kysely, Drizzle or Prisma. */
    db: D & RootOf<D, PostgresPoolLike>
  },
): ConnectedDatabase<TransactionOf<D>>
/**
 * Creates a database for MySQL 8.0.19 or later, or MariaDB 10.6 or later, that has no connections of its own. It works
 * only in transactions that the caller has opened, which is enough for `inbox.process` and `outbox.publish`.
 *
 * @throws {InvalidOptionError} for a wrong option.
 */
export function mysql(options?: MysqlOptions & { db?: NoRoot | undefined }): Database
export function mysql(options: MysqlOptions & { db?: object | undefined } = {}): Database {
  const check = new OptionChecker('mysql', options).known('db', 'prefix', 'libraries')
  const tables = tablesOf('mysql', options.prefix ?? DEFAULT_PREFIX)
  const { db } = options
  const resolver = resolverOption(check, 'mysql')
  if (db === undefined) {
    const { ports, known } = detachedPorts(tables, resolver)
    return withEngine(known, { [portsKey]: ports })
  }

  const store = tableStore(db, { prefix: options.prefix, libraries: options.libraries })
  const { ports, known } = connectedPorts(tables, resolver, { root: resolver.root('mysql', db), db, store })
  return withEngine(known, {
    [portsKey]: ports,
    transact: publicTransact(ports, async (session, work) => {
      const result = await work()
      // The server would confirm a COMMIT even if the transaction had already been rolled back or committed.
      await assertOpen(session)
      return result
    }),
  })
}

/** The engine is 'mysql' until the server has been asked. */
function withEngine<T extends object>(
  known: Known,
  rest: T,
): T & { readonly engine: ServerTraits['engine'] } {
  return {
    ...rest,
    get engine() {
      return known.server?.engine ?? 'mysql'
    },
  }
}

/** The traits of the server, once it has been asked. */
interface Known {
  server?: ServerTraits
}

interface Detached {
  readonly ports: DatabasePorts
  readonly known: Known
  /**
   * Asks for the traits of the server and checks the revision of the tables before anything is written, once for each
   * database object.
   */
  readonly serverBehind: (session: MysqlSession) => Promise<ServerTraits>
  /** Binds without the tables of txbox. */
  readonly bindOwn: RowStore['bind']
}

function detachedPorts(tables: Tables, resolver: Resolver): Detached {
  const known: Known = {}
  async function ask(session: MysqlSession): Promise<ServerTraits> {
    const { traits, traitsWithoutSnapshot } = migrationStatements(tables)
    const run = (text: string): Promise<SqlResult> => execute(session, CHECKING, text, [])
    try {
      return await checkRevision(run, tables, traitsWithoutSnapshot)
    } catch (error) {
      // Before MySQL 8.0.22, locking a row needs more than the SELECT privilege.
      if (numberOf(error) !== TABLE_ACCESS_DENIED) throw error
      return await checkRevision(run, tables, traits)
    }
  }
  const serverBehind = async (session: MysqlSession): Promise<ServerTraits> =>
    (known.server ??= await ask(session))
  async function bindFirst(handle: unknown): Promise<Session> {
    const session = await bind(resolver, handle, undefined)
    session.server = known.server ?? (await ask(session))
    // Set last: a call that does not have to ask must not overtake an earlier call on the same connection.
    known.server = session.server
    return session
  }
  const bindOwn = bindAlone(resolver, known)
  return {
    known,
    serverBehind,
    bindOwn,
    ports: {
      bind: (handle) =>
        known.server === undefined ? bindFirst(handle) : bind(resolver, handle, known.server),
      watch,
      isConflict: errors.isConflict,
      isLastingConflict: errors.isLastingConflict,
      inbox: new MysqlInboxStore(tables),
      outbox: new MysqlOutboxStore(tables),
      versions: new MysqlVersionBufferStore(tables),
      queueSender: new MysqlQueueSender(tables),
      rows: new MysqlRowStore(bindOwn, undefined),
    },
  }
}

function connectedPorts(
  tables: Tables,
  resolver: Resolver,
  { root, db, store }: { readonly root: RootAdapter; readonly db: object; readonly store: TableStore },
): { ports: ConnectedPorts; known: Known } {
  const { ports, known, serverBehind, bindOwn } = detachedPorts(tables, resolver)
  const run: RunStatement = (text) => root.query(db, text, [], CHECK_TIMEOUT_MS)
  /** The traits of the server, once one of txbox's own connections has been checked: a user's transaction is not. */
  let own: ServerTraits | undefined
  const ask = async (): Promise<ServerTraits> => (own = known.server = await checkOwnConnection(run, tables))
  const server = async (): Promise<ServerTraits> => own ?? (await ask())
  const sourceOf = (statementTimeoutMs: number): MysqlStatementRoot => ({
    root,
    db,
    statementTimeoutMs,
    server,
  })
  const transactAlone = transactOn({ root, db, checksCommit: false }, errors, (tx) =>
    openedSession(resolver, tx),
  )
  return {
    known,
    ports: {
      ...ports,
      rows: new MysqlRowStore(bindOwn, { db, transact: (work) => transactAlone(work, {}) }),
      transact: transactOn({ root, db, checksCommit: false }, errors, async (tx) => {
        const session = await openedSession(resolver, tx)
        session.server = await serverBehind(session)
        return session
      }),
      lossOf: lossOn(root, db),
      async checkSchema() {
        await translatingErrors(errors, CHECKING, ask)
      },
      tables: () => store,
      useConnections: (part, connections) => useConnections(db, root.maxConnections(db), part, connections),
      maxConnections: () => root.maxConnections(db),
      relay: ({ statementTimeoutMs }) => new MysqlRelayStore(tables, sourceOf(statementTimeoutMs)),
      deadLetters: ({ statementTimeoutMs, ...of }) =>
        deadLetterStore(tables, sourceOf(statementTimeoutMs), of),
      inspection: () => inspectionStore(tables, root, db),
      queue: ({ statementTimeoutMs, receiveTimeoutMs = statementTimeoutMs }) =>
        new MysqlQueueStore(tables, sourceOf(statementTimeoutMs), sourceOf(receiveTimeoutMs)),
      removals: () => removalStore(tables, sourceOf(GARBAGE_TIMEOUT_MS)),
      local: ({ statementTimeoutMs }) => new MysqlLocalStore(tables, sourceOf(statementTimeoutMs)),
      subscriptions: () => new MysqlSubscriptionStore(tables, sourceOf(CHECK_TIMEOUT_MS)),
      dedupLeases: ({ statementTimeoutMs }) => dedupLeaseStore(tables, sourceOf(statementTimeoutMs)),
      garbage: () => garbageStore(tables, sourceOf(GARBAGE_TIMEOUT_MS)),
      leases({ statementTimeoutMs = LEASE_TIMEOUT_MS } = {}) {
        assertTwoConnections(root, db, 'Set connectionLimit: 6.')
        return new MysqlLeaseStore(tables, sourceOf(statementTimeoutMs))
      },
    },
  }
}
