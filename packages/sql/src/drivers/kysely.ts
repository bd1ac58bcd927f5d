import { NotInTransactionError } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import type { DriverAdapter, OwnConnection, RootAdapter, SqlResult, TransactionState } from '../adapters.ts'
import { MonitoredConnection, stateOfTracker } from '../connection-monitor.ts'
import { hasBoolean, hasFunction } from '../members.ts'
import { effectOf, type Effect } from '../statement-effect.ts'

/** The part of Kysely that txbox uses; `kysely` itself is not imported. */
interface KyselyLike {
  readonly isTransaction: boolean
  getExecutor(): KyselyExecutor
}
interface KyselyRoot extends KyselyLike {
  readonly isTransaction: false
  transaction(): KyselyTransactionBuilder
  connection(): { execute<T>(work: (db: KyselyLike) => Promise<T>): Promise<T> }
}
interface KyselyTransactionBuilder {
  setIsolationLevel(isolation: string): KyselyTransactionBuilder
  execute<T>(work: (tx: KyselyLike) => Promise<T>): Promise<T>
}
/** A transaction. A controlled transaction also shows whether it has ended. */
interface KyselyTransaction extends KyselyLike {
  readonly isCommitted?: boolean
  readonly isRolledBack?: boolean
}
interface KyselyExecutor {
  provideConnection<T>(consumer: (connection: KyselyConnection) => Promise<T>): Promise<T>
}
interface KyselyConnection {
  killSession?(runElsewhere: (work: unknown) => Promise<void>): Promise<void>
  executeQuery(query: CompiledQuery, ...rest: unknown[]): Promise<KyselyResult>
  streamQuery(query: CompiledQuery, ...rest: unknown[]): AsyncIterableIterator<KyselyResult>
}
interface KyselyResult {
  readonly rows: Record<string, unknown>[]
  readonly numAffectedRows?: bigint
  readonly insertId?: bigint | undefined
}
interface CompiledQuery {
  readonly sql: string
  readonly parameters: readonly unknown[]
  readonly query: object
  readonly queryId: object
}

/**
 * A Kysely `Transaction`, including a controlled one. Kysely hides the client, so txbox watches the connection from
 * outside.
 */
export const kyselyHandle: DriverAdapter<KyselyTransaction> = {
  name: 'Kysely',
  recognises: isKysely,
  state(tx) {
    // Kysely refuses statements in a transaction that Kysely itself has ended. Only the monitor sees a COMMIT that was
    // sent as raw SQL. Kysely is asked for the connection, which takes four promises, only if txbox does not know it.
    const monitor = isOpen(tx) ? (monitors.get(tx.getExecutor()) ?? monitorOf(tx)) : undefined
    return monitor instanceof Promise ? monitor.then(stateOfKnown) : stateOfKnown(monitor)
  },
  stateNow(tx) {
    return stateOfTracker(monitors.get(tx.getExecutor()))
  },
  query,
  monitor(tx) {
    return isOpen(tx) ? monitorOf(tx) : undefined
  },
  // Kysely refuses statements only after the answer to its ROLLBACK. Statements that were sent earlier would run after
  // the ROLLBACK, each in a transaction of its own.
  sever(tx) {
    const monitor = monitors.get(tx.getExecutor())
    if (monitor !== undefined) givenUp.add(monitor)
  },
}

function isOpen(tx: KyselyTransaction): boolean {
  return tx.isTransaction && tx.isCommitted !== true && tx.isRolledBack !== true
}

function stateOfKnown(monitor: MonitoredConnection | undefined): TransactionState {
  return monitor === undefined ? 'none' : stateOfTracker(monitor)
}

/** The connections of transactions that were given up, until their ROLLBACK has been answered. */
const givenUp = new WeakSet<MonitoredConnection>()

function refuseGivenUp(monitor: MonitoredConnection, { sql }: CompiledQuery): void {
  if (!givenUp.has(monitor) || /^\s*rollback\s*;?\s*$/i.test(sql)) return
  throw new NotInTransactionError(
    'The transaction was given up, because its signal was aborted while the handler was running. Nothing was written.',
  )
}

/** A Kysely root. */
export const kyselyRoot: RootAdapter<KyselyRoot> = {
  name: 'Kysely',
  checksCommit: true,
  opensConnections: false,
  recognises(root): root is KyselyRoot {
    return isKysely(root) && !root.isTransaction && hasFunction(root, 'connection')
  },
  maxConnections: () => undefined,
  query: queryWithin,
  connect(db) {
    return new Promise<OwnConnection>((resolve, reject) => {
      const held = db.connection().execute(async (connection) => {
        const underneath = await connection.getExecutor().provideConnection(async (own) => own)
        await new Promise<void>((release) => {
          resolve({
            query: (text, values) => query(connection, text, values),
            release(broken) {
              if (broken) discard(underneath)
              release()
            },
          })
        })
      })
      held.catch(reject)
    })
  },
  // An idle connection that Kysely has reserved for a caller has no listener for errors: if it broke, the process would
  // end.
  connectApart: async (db, timeoutMs) => ({
    query: (sql, values) => queryWithin(db, sql, values, timeoutMs),
    release: () => undefined,
  }),
  transact(db, work, isolation) {
    const builder = isolation === undefined ? db.transaction() : db.transaction().setIsolationLevel(isolation)
    return builder.execute((tx) => work(tx, undefined))
  },
}

/** Plugins would rename columns and convert values, so txbox's own statements bypass them. */
async function query(db: KyselyLike, sql: string, parameters: readonly unknown[]): Promise<SqlResult> {
  try {
    const compiled = compile(sql, parameters)
    return toSqlResult(
      await db.getExecutor().provideConnection((connection) => connection.executeQuery(compiled)),
    )
  } catch (error) {
    throw translateEnded(error)
  }
}

/**
 * Runs a statement on any connection, and discards the connection if it does not answer and the driver can discard it.
 * Other drivers keep the connection in use until it answers.
 */
function queryWithin(
  db: KyselyRoot,
  sql: string,
  parameters: readonly unknown[],
  timeoutMs: number,
): Promise<SqlResult> {
  return new Promise<SqlResult>((resolve, reject) => {
    let late = false
    let connection: KyselyConnection | undefined
    const timer = setTimeout(() => {
      late = true
      // The same error as that of AbortSignal.timeout.
      reject(new DOMException('The operation was aborted due to timeout', 'TimeoutError'))
      if (connection !== undefined) discard(connection)
    }, timeoutMs)
    const run = async (provided: KyselyConnection): Promise<void> => {
      // The connection was opened too late for this call, but can be used by others.
      if (late) return
      connection = provided
      resolve(toSqlResult(await provided.executeQuery(compile(sql, parameters))))
    }
    db.getExecutor()
      .provideConnection(run)
      .catch(reject)
      .finally(() => clearTimeout(timer))
  })
}

/**
 * Ends a connection on which a statement may still be in flight. Kysely's driver for MySQL then removes the connection
 * from the pool; the driver for PostgreSQL cannot. Nothing is sent to the server, which may not answer.
 */
function discard(connection: KyselyConnection): void {
  connection.killSession?.(async () => undefined).catch(() => undefined)
}

function compile(sql: string, parameters: readonly unknown[]): CompiledQuery {
  return {
    sql,
    parameters,
    query: { kind: 'RawNode', sqlFragments: [sql], parameters: [] },
    queryId: TXBOX,
  }
}

function toSqlResult({ rows, numAffectedRows, insertId }: KyselyResult): SqlResult {
  return { rows, affected: Number(numAffectedRows ?? Number.NaN), insertId: Number(insertId ?? 0n) }
}

/**
 * Translates the error by which Kysely refuses a transaction that has ended: the error has neither a class nor a code
 * of its own.
 */
function translateEnded(error: unknown): unknown {
  if (!(error instanceof Error && error.message.startsWith('Transaction is already '))) return error
  return new NotInTransactionError(
    `The Kysely transaction has ended: ${oneLine(error.message)}. Await everything that uses it before it commits. Nothing ` +
      'was written.',
    { cause: error },
  )
}

/** Marks txbox's own statements. */
const TXBOX = { queryId: 'txbox' }

/**
 * A pool keeps a connection longer than its transactions, so a connection is wrapped only once, as Kysely does for its
 * own logging.
 */
const wrapped = new WeakMap<KyselyConnection, MonitoredConnection>()

/** The monitor of each transaction's connection. A handle may be a proxy that several transactions share. */
const monitors = new WeakMap<KyselyExecutor, MonitoredConnection>()

/**
 * Returns the monitor of a transaction's connection. Kysely reports that a transaction has ended only when it is asked
 * for the connection.
 */
async function monitorOf(tx: KyselyLike): Promise<MonitoredConnection> {
  try {
    const connection = await tx.getExecutor().provideConnection(async (own) => own)
    const monitor = wrapped.get(connection) ?? wrap(connection)
    monitors.set(tx.getExecutor(), monitor)
    return monitor
  } catch (error) {
    throw translateEnded(error)
  }
}

function wrap(connection: KyselyConnection): MonitoredConnection {
  const executeQuery = connection.executeQuery.bind(connection)
  const monitor = new MonitoredConnection((sql) => executeQuery(compile(sql, [])))
  wrapped.set(connection, monitor)
  const streamQuery = connection.streamQuery.bind(connection)
  // txbox's own statements never end a transaction. Kysely does not show whether the connection can run several
  // statements of one text.
  const effectOn = ({ queryId, sql }: CompiledQuery): Effect =>
    queryId === TXBOX ? 'none' : effectOf(sql, true)
  connection.executeQuery = async (compiled, ...rest) => {
    refuseGivenUp(monitor, compiled)
    const effect = effectOn(compiled)
    monitor.sent(effect)
    try {
      const result = await executeQuery(compiled, ...rest)
      monitor.succeeded(effect)
      return result
    } catch (error) {
      monitor.failed(error, compiled.queryId === TXBOX)
      throw error
    } finally {
      if (effect === 'ends') givenUp.delete(monitor)
    }
  }
  connection.streamQuery = async function* (compiled, ...rest) {
    refuseGivenUp(monitor, compiled)
    const effect = effectOn(compiled)
    let failed = false
    monitor.sent(effect)
    try {
      yield* streamQuery(compiled, ...rest)
    } catch (error) {
      failed = true
      monitor.failed(error, false)
      throw error
    } finally {
      // This also runs if the reader stops early.
      if (!failed) monitor.succeeded(effect)
    }
  }
  return monitor
}

function isKysely(value: unknown): value is KyselyLike {
  return hasBoolean(value, 'isTransaction') && hasFunction(value, 'getExecutor')
}
