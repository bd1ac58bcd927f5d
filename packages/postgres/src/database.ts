/*
 * On PostgreSQL, tables are in a schema, NOTIFY is available, and BEGIN is sent together with the first statement. On
 * MySQL and MariaDB, tables have a prefix, and the server has traits that must be asked for.
 */
import {
  hours,
  portsKey,
  type ConnectedDatabase,
  type Database,
  type NoRoot,
  type Session,
  type TransactionLibrary,
  type MysqlPoolLike,
  type RootOf,
  type TransactionOf,
} from '@txbox/core'
import type { ConnectedPorts, DatabasePorts, TableStore } from '@txbox/core/ports'
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
  type StatementRoot,
} from '@txbox/sql/transactions'
import { connectListening } from './listen/connect-listening.ts'
import { deadLetterStore } from './operate/dead-letter-store.ts'
import { dedupLeaseStore } from './dedup/dedup-lease-store.ts'
import { errors } from './connection/errors.ts'
import { garbageStore } from './operate/garbage-store.ts'
import { removalStore } from './operate/removal-store.ts'
import { DEFAULT_SCHEMA, quoteSchema } from './connection/identifiers.ts'
import { PostgresInboxStore } from './inbox/inbox-store.ts'
import { inspectionStore } from './operate/inspection-store.ts'
import { PostgresLeaseStore } from './relay/lease-store.ts'
import { PostgresLocalStore } from './local/local-store.ts'
import { PostgresSubscriptionStore } from './local/subscription-store.ts'
import { listeningPorts } from './listen/listening-ports.ts'
import { Notifier } from './notify/notifier.ts'
import { PostgresOutboxStore } from './outbox/outbox-store.ts'
import { PostgresQueueSender } from './queue/queue-sender.ts'
import { PostgresQueueStore } from './queue/queue-store.ts'
import { PostgresRelayStore } from './relay/relay-store.ts'
import { PostgresRowStore } from './rows/row-store.ts'
import { tableStore } from './tables/migrate.ts'
import { checkRevision } from './tables/schema-revision.ts'
import { bind, execute, open, openedSession, watch } from './connection/session.ts'
import { PostgresVersionBufferStore } from './versions/version-buffer-store.ts'

const LISTEN_CHECK_INTERVAL_MS = 5000

export interface PostgresOptions {
  /** The schema of txbox's tables, 1 to 63 bytes, case-sensitive. @default 'txbox' */
  schema?: string | undefined
  /**
   * Where relays, local consumers and receivers of a queue listen for new messages if `db` hides its clients, as Kysely does, or
   * goes through a pooler: a connection string, or a function that returns a new connected `pg` client for each call. Not needed
   * with a `pg.Pool` that connects to the server itself.
   *
   * @default a connection of `db`, where it can open one; else everything polls
   */
  listen?: string | (() => Promise<object>) | undefined
  /**
   * How often the listening connection is checked, in milliseconds, 100 ms to an hour. A connection whose server is
   * gone may never report an error. Until the connection is detected as broken and replaced, messages are only found by polling. The
   * server must answer a check within the same time, and at most 5 s.
   *
   * @default 5_000
   */
  listenCheckIntervalMs?: number | undefined
  /** Descriptions of libraries that txbox does not know by itself, made with `defineLibrary`. @default none */
  libraries?: readonly TransactionLibrary[] | undefined
}

/**
 * Creates a database for PostgreSQL 15 or later on your own root, a Kysely or a `pg.Pool`: for `inbox.run`, the relay
 * and all other features. Opens no connection by itself.
 *
 * @throws {InvalidOptionError} for a wrong option, or a `db` that opens no transactions.
 */
export function postgres<D extends object>(
  options: PostgresOptions & {
    /** Your own root: a `pg.Pool`, or the root of a library such as Kysely, Drizzle or Prisma. */
    db: D & RootOf<D, MysqlPoolLike>
  },
): ConnectedDatabase<TransactionOf<D>>
/**
 * Creates a database for PostgreSQL 15 or later that has no connections of its own. It works only in transactions that
 * the caller has opened, which is enough for `inbox.process` and `outbox.publish`.
 *
 * @throws {InvalidOptionError} for a wrong option.
 */
export function postgres(options?: PostgresOptions & { db?: NoRoot | undefined }): Database
export function postgres(options: PostgresOptions & { db?: object | undefined } = {}): Database {
  const check = new OptionChecker('postgres', options).known(
    'db',
    'schema',
    'listen',
    'listenCheckIntervalMs',
    'libraries',
  )
  const schema = quoteSchema('postgres', options.schema ?? DEFAULT_SCHEMA)
  const { db, listen } = options
  if (listen !== undefined && typeof listen !== 'string' && typeof listen !== 'function') {
    throw check.wrong('listen', 'a connection string, or a function that returns a connected pg client')
  }
  const checkIntervalMs = check.milliseconds('listenCheckIntervalMs', {
    min: 100,
    max: hours(1),
    default: LISTEN_CHECK_INTERVAL_MS,
  })
  const resolver = resolverOption(check, 'postgres')
  if (db === undefined) return { engine: 'postgres', [portsKey]: detachedPorts(schema, resolver) }

  const root = resolver.root('postgres', db)
  const tables = tableStore(root, db, { schema: options.schema, libraries: options.libraries })
  const ports = connectedPorts(schema, resolver, { root, db, listen, checkIntervalMs, tables })
  const database = {
    engine: 'postgres' as const,
    [portsKey]: ports,
    transact: publicTransact(ports, async (session, work) => {
      await open(session)
      // Most libraries report a COMMIT that the server answered with a rollback as a success.
      return root.checksCommit ? work() : watch(session, work)
    }),
  }
  return database
}

function detachedPorts(
  schema: string,
  resolver: Resolver,
): DatabasePorts & { prepare(session: Session): Promise<void> } {
  const notifier = new Notifier()
  let checked = false
  /** Checks the revision of the tables before anything is written, once for each database object. */
  async function prepare(session: Session): Promise<void> {
    if (!checked) await check(session)
    checked = true
  }
  function check(session: Session): Promise<void> {
    return checkRevision((text, values = []) => execute(session, CHECKING, text, values), schema)
  }
  async function bindFirst(handle: unknown): Promise<Session> {
    const session = await bind(resolver, handle)
    if (!checked) await check(session)
    // Set last: a call that needs no check must not overtake an earlier one on the same connection.
    checked = true
    return session
  }
  return {
    prepare,
    bind: (handle) => (checked ? bind(resolver, handle) : bindFirst(handle)),
    watch,
    isConflict: errors.isConflict,
    isLastingConflict: errors.isLastingConflict,
    inbox: new PostgresInboxStore(schema),
    outbox: new PostgresOutboxStore(schema, notifier),
    versions: new PostgresVersionBufferStore(schema),
    queueSender: new PostgresQueueSender(schema, notifier),
    rows: new PostgresRowStore(resolver, undefined),
  }
}

interface Connections {
  readonly root: RootAdapter
  readonly db: object
  readonly listen: PostgresOptions['listen']
  readonly checkIntervalMs: number
  readonly tables: TableStore
}

function connectedPorts(
  schema: string,
  resolver: Resolver,
  { root, db, listen, checkIntervalMs, tables }: Connections,
): ConnectedPorts {
  const detached = detachedPorts(schema, resolver)
  const connect = connectListening(root, db, listen)
  const sourceOf = (statementTimeoutMs: number): StatementRoot => ({ root, db, statementTimeoutMs })
  const opening = { root, db, checksCommit: root.checksCommit }
  const transactAlone = transactOn(opening, errors, (tx, open) => openedSession(resolver, tx, open))
  return {
    ...detached,
    rows: new PostgresRowStore(resolver, { db, transact: (work) => transactAlone(work, {}) }),
    transact: transactOn(opening, errors, async (tx, open) => {
      const session = await openedSession(resolver, tx, open)
      await detached.prepare(session)
      return session
    }),
    lossOf: lossOn(root, db),
    async checkSchema() {
      const run: RunStatement = (text, values = []) => root.query(db, text, values, CHECK_TIMEOUT_MS)
      await translatingErrors(errors, CHECKING, () => checkRevision(run, schema))
    },
    tables: () => tables,
    useConnections: (part, connections) => useConnections(db, root.maxConnections(db), part, connections),
    maxConnections: () => root.maxConnections(db),
    relay: ({ statementTimeoutMs }) => new PostgresRelayStore(schema, sourceOf(statementTimeoutMs)),
    deadLetters: ({ statementTimeoutMs, ...of }) => deadLetterStore(schema, sourceOf(statementTimeoutMs), of),
    inspection: () => inspectionStore(schema, root, db),
    queue: ({ statementTimeoutMs, receiveTimeoutMs = statementTimeoutMs }) =>
      new PostgresQueueStore(schema, sourceOf(statementTimeoutMs), sourceOf(receiveTimeoutMs)),
    removals: () => removalStore(schema, sourceOf(GARBAGE_TIMEOUT_MS)),
    local: ({ statementTimeoutMs }) => new PostgresLocalStore(schema, sourceOf(statementTimeoutMs)),
    subscriptions: () => new PostgresSubscriptionStore(schema, sourceOf(CHECK_TIMEOUT_MS)),
    dedupLeases: ({ statementTimeoutMs }) => dedupLeaseStore(schema, sourceOf(statementTimeoutMs)),
    garbage: () => garbageStore(schema, sourceOf(GARBAGE_TIMEOUT_MS)),
    ...(connect !== undefined &&
      listeningPorts(schema, { connect, checkIntervalMs, hasOwnAddress: listen !== undefined })),
    leases({ statementTimeoutMs = LEASE_TIMEOUT_MS } = {}) {
      assertTwoConnections(root, db, 'Set max: 6.')
      return new PostgresLeaseStore(schema, sourceOf(statementTimeoutMs))
    },
  }
}
