import { NotInTransactionError } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import type { DriverAdapter, Engine, SqlResult, TransactionState } from '../adapters.ts'
import { MonitoredConnection, stateOfTracker } from '../monitors/connection-monitor.ts'
import { hasBoolean, hasFunction } from '../members.ts'
import { pgStatements } from './pg-statements.ts'
import { effectOf, endsTransaction, type Effect } from '../monitors/statement-effect.ts'

/** The part of Kysely that txbox uses; `kysely` itself is not imported. */
export interface KyselyLike {
  readonly isTransaction: boolean
  getExecutor(): KyselyExecutor
}
/** Only a controlled transaction shows whether it has ended. */
interface KyselyTransaction extends KyselyLike {
  readonly isCommitted?: boolean
  readonly isRolledBack?: boolean
}
interface KyselyExecutor {
  readonly adapter?: {
    readonly supportsReturning?: boolean
    readonly supportsOutput?: boolean
    readonly supportsTransactionalDdl?: boolean
    readonly supportsMultipleConnections?: boolean
  }
  provideConnection<T>(consumer: (connection: KyselyConnection) => Promise<T>): Promise<T>
}
export interface KyselyConnection {
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
  engineOf,
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
  async limitIdleTime(tx, milliseconds) {
    // Where there can be only one connection, on PGlite, its end is the end of the database.
    const isAlone = tx.getExecutor().adapter?.supportsMultipleConnections === false
    if (engineOf(tx) === 'postgres' && !isAlone) await query(tx, pgStatements.limitIdleTime(milliseconds), [])
  },
}

/** A dialect shows its kind of database by what it supports. */
export function engineOf(db: KyselyLike): Engine | undefined {
  const { supportsReturning, supportsOutput, supportsTransactionalDdl } = db.getExecutor().adapter ?? {}
  if (supportsReturning === true && supportsTransactionalDdl === true) return 'postgres'
  return supportsReturning === false && supportsOutput !== true ? 'mysql' : undefined
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

/** Plugins would rename columns and convert values, so txbox's own statements bypass them. */
export async function query(db: KyselyLike, sql: string, parameters: readonly unknown[]): Promise<SqlResult> {
  try {
    const compiled = compile(sql, parameters)
    const executor = db.getExecutor()
    const tracker = monitors.get(executor)?.tracker
    const changes = tracker?.changes
    return toSqlResult(
      await executor.provideConnection((connection) => {
        // Kysely refuses a statement only after the answer to ROLLBACK: until then, it would run after the ROLLBACK.
        if (tracker?.changes !== changes) throw ended('COMMIT or ROLLBACK was sent before this statement')
        return connection.executeQuery(compiled)
      }),
    )
  } catch (error) {
    throw translateEnded(error)
  }
}

export function compile(sql: string, parameters: readonly unknown[]): CompiledQuery {
  return {
    sql,
    parameters,
    query: { kind: 'RawNode', sqlFragments: [sql], parameters: [] },
    queryId: TXBOX,
  }
}

export function toSqlResult({ rows, numAffectedRows, insertId }: KyselyResult): SqlResult {
  return { rows, affected: Number(numAffectedRows ?? Number.NaN), insertId: Number(insertId ?? 0n) }
}

/**
 * Translates the error by which Kysely refuses a transaction that has ended: the error has neither a class nor a code
 * of its own.
 */
function translateEnded(error: unknown): unknown {
  if (!(error instanceof Error && error.message.startsWith('Transaction is already '))) return error
  return ended(oneLine(error.message), error)
}

function ended(reason: string, cause?: unknown): NotInTransactionError {
  return new NotInTransactionError(
    `The Kysely transaction has ended: ${reason}. Await everything that uses it before it commits. Nothing was written.`,
    { cause },
  )
}

/** Marks txbox's own statements. */
const TXBOX = { queryId: 'txbox' }

/**
 * A pool keeps a connection longer than its transactions, so a connection is wrapped only once, as Kysely does for its
 * own logging.
 */
const wrapped = new WeakMap<KyselyConnection, MonitoredConnection>()

/** The keys are executors, because a handle may be a proxy that several transactions share. */
const monitors = new WeakMap<KyselyExecutor, MonitoredConnection>()

/** Kysely reports that a transaction has ended only when it is asked for the connection. */
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
      if (endsTransaction(effect)) givenUp.delete(monitor)
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

export function isKysely(value: unknown): value is KyselyLike {
  return hasBoolean(value, 'isTransaction') && hasFunction(value, 'getExecutor')
}
