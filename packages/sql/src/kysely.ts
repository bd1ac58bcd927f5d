import { NotInTransactionError, oneLine } from '@txbox/core'
import type { HandleAdapter, OwnConnection, RootAdapter, SqlResult } from './handle-adapter.ts'
import { SeenConnection, effectOf, stateOfTrack, type Effect } from './seen-connection.ts'

/** What we use of Kysely; `kysely` itself is not imported. */
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
/** A controlled transaction also says whether it has ended. */
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

/** A Kysely `Transaction`, also a controlled one. Kysely hides the client, so failures are watched from outside. */
export const kyselyHandle: HandleAdapter<KyselyTransaction> = {
  library: 'kysely',
  recognises: isKysely,
  async state(tx, seen) {
    // Kysely refuses to run anything in a transaction that it has ended itself; a COMMIT as raw SQL only we can see.
    const { track } = seen ?? (await this.seen(tx)) ?? {}
    return track === undefined || track.ended ? 'none' : 'open'
  },
  stateNow(tx) {
    return stateOfTrack(tracked.get(tx))
  },
  query,
  seen(tx) {
    return tx.isTransaction && tx.isCommitted !== true && tx.isRolledBack !== true ? seenIn(tx) : undefined
  },
}

/** A Kysely root. */
export const kyselyRoot: RootAdapter<KyselyRoot> = {
  library: 'kysely',
  recognises(root): root is KyselyRoot {
    return isKysely(root) && !root.isTransaction && typeof Reflect.get(root, 'connection') === 'function'
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
  // A connection that Kysely holds for us has no listener for its errors: one that breaks while idle would end the process.
  connectApart: async (db, timeoutMs) => ({
    query: (sql, values) => queryWithin(db, sql, values, timeoutMs),
    release: () => undefined,
  }),
  transact(db, work, isolation) {
    const builder = isolation === undefined ? db.transaction() : db.transaction().setIsolationLevel(isolation)
    return builder.execute((tx) => work(tx, undefined))
  },
}

/** Plugins would rename columns and convert values, so that no statement of ours goes through them. */
async function query(db: KyselyLike, sql: string, parameters: readonly unknown[]): Promise<SqlResult> {
  try {
    const compiled = compile(sql, parameters)
    return toSqlResult(
      await db.getExecutor().provideConnection((connection) => connection.executeQuery(compiled)),
    )
  } catch (error) {
    throw ofEnded(error)
  }
}

/** A connection without an answer is given up, where the driver lets it; elsewhere it is held until it answers. */
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
      // In the words of AbortSignal.timeout.
      reject(new DOMException('The operation was aborted due to timeout', 'TimeoutError'))
      if (connection !== undefined) discard(connection)
    }, timeoutMs)
    const run = async (provided: KyselyConnection): Promise<void> => {
      // It came too late, and is as good as ever.
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
 * Ends a connection on which a statement may still be under way. The driver of MySQL throws its connection out of the
 * pool for that; that of PostgreSQL has nothing of the kind. The server is left alone: nobody may answer there.
 */
function discard(connection: KyselyConnection): void {
  connection.killSession?.(async () => undefined).catch(() => undefined)
}

function compile(sql: string, parameters: readonly unknown[]): CompiledQuery {
  return {
    sql,
    parameters,
    query: { kind: 'RawNode', sqlFragments: [sql], parameters: [] },
    queryId: OURS,
  }
}

function toSqlResult({ rows, numAffectedRows, insertId }: KyselyResult): SqlResult {
  return { rows, affected: Number(numAffectedRows ?? Number.NaN), insertId: Number(insertId ?? 0n) }
}

/** Kysely refuses a transaction that has ended by an error without a class or a code of its own. */
function ofEnded(error: unknown): unknown {
  if (!(error instanceof Error && error.message.startsWith('Transaction is already '))) return error
  return new NotInTransactionError(
    `The Kysely transaction has ended: ${oneLine(error.message)}. Await everything that uses it before it commits. Nothing ` +
      'was written.',
    { cause: error },
  )
}

/** Names our own statements. */
const OURS = { queryId: 'txbox' }

/** A connection outlives its transactions in the pool; it is wrapped once, as Kysely does for its own logging. */
const wrapped = new WeakMap<KyselyConnection, SeenConnection>()

/** The connections of the transactions that were seen. */
const tracked = new WeakMap<KyselyLike, SeenConnection>()

/** A transaction has one connection. That it has ended shows only when it is asked for that. */
async function seenIn(tx: KyselyLike): Promise<SeenConnection> {
  try {
    const connection = await tx.getExecutor().provideConnection(async (own) => own)
    const seen = wrapped.get(connection) ?? wrap(connection)
    tracked.set(tx, seen)
    return seen
  } catch (error) {
    throw ofEnded(error)
  }
}

function wrap(connection: KyselyConnection): SeenConnection {
  const executeQuery = connection.executeQuery.bind(connection)
  const seen = new SeenConnection((sql) => executeQuery(compile(sql, [])))
  wrapped.set(connection, seen)
  const streamQuery = connection.streamQuery.bind(connection)
  // Of ours none ends a transaction. Whether the connection would run several statements of one text is hidden.
  const effectOn = ({ queryId, sql }: CompiledQuery): Effect =>
    queryId === OURS ? 'none' : effectOf(sql, true)
  connection.executeQuery = async (compiled, ...rest) => {
    const effect = effectOn(compiled)
    seen.sent(effect)
    try {
      const result = await executeQuery(compiled, ...rest)
      seen.succeeded(effect)
      return result
    } catch (error) {
      seen.failed(error, compiled.queryId === OURS)
      throw error
    }
  }
  connection.streamQuery = async function* (compiled, ...rest) {
    const effect = effectOn(compiled)
    let failed = false
    seen.sent(effect)
    try {
      yield* streamQuery(compiled, ...rest)
    } catch (error) {
      failed = true
      seen.failed(error, false)
      throw error
    } finally {
      // Also where the reader has had enough.
      if (!failed) seen.succeeded(effect)
    }
  }
  return seen
}

function isKysely(value: unknown): value is KyselyLike {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof Reflect.get(value, 'isTransaction') === 'boolean' &&
    typeof Reflect.get(value, 'getExecutor') === 'function'
  )
}
