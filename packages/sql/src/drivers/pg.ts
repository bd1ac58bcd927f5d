import { TransactionAbortedError } from '@txbox/core'
import type {
  DriverAdapter,
  ListeningConnection,
  OwnConnection,
  RootAdapter,
  Snapshot,
  SqlResult,
  TransactionState,
} from '../adapters.ts'
import { answerTo, asFlight, resultOfFlight, type FlyingQuery } from './pg-flight.ts'
import { pgOpening } from './pg-opening.ts'
import { COMMAND_TAGS, beginAt, pgStatements } from './pg-statements.ts'

/** The part of a `pg` client that txbox uses; `pg` itself is not imported. */
interface PgClient {
  query(text: string, values?: unknown[]): Promise<PgResult>
  escapeIdentifier(text: string): string
  /** Since pg 8.21; also absent from `pg.native`. */
  getTransactionStatus?(): 'I' | 'T' | 'E' | null
  readonly readyForQuery?: boolean
  /** Absent from `pg.native`. */
  readonly connection?: AnswerEvents
  on(event: 'error', listener: (error: unknown) => void): unknown
  off(event: 'error', listener: () => void): unknown
  end(): Promise<void>
}
interface AnswerEvents {
  readonly stream?: { destroy(): unknown }
  on(event: 'readyForQuery', listener: (message: { status?: string }) => void): unknown
  on(event: 'commandComplete', listener: (message: { text?: string }) => void): unknown
}
interface PgResult {
  readonly rows: Record<string, unknown>[]
  readonly rowCount: number | null
  readonly command: string
}
interface PgPool {
  connect(): Promise<PgClient & { release(destroy?: boolean): void }>
  query(config: { text: string; values: unknown[]; query_timeout: number }): Promise<PgResult>
  readonly totalCount: number
  readonly options?: {
    readonly max?: number
    readonly password?: unknown
    readonly connectionTimeoutMillis?: number
  }
  readonly Client: {
    new (config: object): PgClient & { connect(): Promise<unknown>; end(): Promise<void> }
    readonly Query?: {
      new (config: { text: string; values?: readonly unknown[] }): PgQuery
      readonly prototype: Partial<PgQuery>
    }
  }
}
/** The query of `pg.native` has none of these methods. */
interface PgQuery extends FlyingQuery {
  handleCopyData: (message: { readonly chunk: Buffer }) => void
}

/**
 * The share of the timeout after which the server cancels a late statement, so that the answer still reaches the
 * client.
 */
const SERVER_SHARE = 0.9

const STATES = { I: 'none', T: 'open', E: 'aborted' } as const

/** A `pg` client, which itself knows the state of its transaction. */
export const pgHandle: DriverAdapter<PgClient> = {
  name: 'pg',
  recognises(handle): handle is PgClient {
    return has(handle, 'query', 'function') && (has(handle, 'escapeIdentifier', 'function') || isPool(handle))
  },
  async state(client) {
    if (isPool(client)) return 'none'
    if (client.getTransactionStatus === undefined) return 'unknown'
    // The status is that of the last answer. While a statement is in flight, and right after a caught error, the status
    // is out of date: an empty query waits behind all other statements, and its answer has the state after them.
    if (client.readyForQuery === false) await client.query('')
    return stateOf(client.getTransactionStatus())
  },
  stateNow(client) {
    if (client.getTransactionStatus === undefined) return 'open'
    return client.readyForQuery === false ? undefined : stateOf(client.getTransactionStatus())
  },
  monitor(client) {
    return { snapshot: () => answersSince(answersTo(client)) }
  },
  async query(client, text, values) {
    return toSqlResult(await client.query(text, values as unknown[]))
  },
  sever(client) {
    // A client without a listener for its 'error' event would end the process.
    client.on('error', () => undefined)
    const stream = client.connection?.stream
    // At once, so that the pool of a library sees it before the library's own ROLLBACK has failed.
    if (stream === undefined) void client.end().catch(() => undefined)
    else stream.destroy()
  },
}

/** The server's answers to a client since the client was first seen. */
interface Answers {
  /** The number of answers that say that a transaction has ended, whether or not another transaction is open by now. */
  ends: number
  savepoints: number
  /** The number of rollbacks, of a transaction or to a savepoint: the command tag is the same. */
  rollbacks: number
}

const answers = new WeakMap<PgClient, Answers>()

/** The command tags show each statement of a text with several statements, however the text was sent. */
function answersTo(client: PgClient): Answers {
  let known = answers.get(client)
  if (known === undefined) {
    const counted: Answers = { ends: 0, savepoints: 0, rollbacks: 0 }
    client.connection?.on('readyForQuery', ({ status }) => void (status === 'I' && counted.ends++))
    client.connection?.on('commandComplete', ({ text }) => {
      if (text === COMMAND_TAGS.commit || text === COMMAND_TAGS.prepare) counted.ends++
      else if (text === COMMAND_TAGS.savepoint) counted.savepoints++
      else if (text === COMMAND_TAGS.rollback) counted.rollbacks++
    })
    answers.set(client, (known = counted))
  }
  return known
}

function answersSince(counted: Answers): Snapshot {
  const { ends, savepoints, rollbacks } = counted
  const rolledBack = (): boolean => counted.rollbacks !== rollbacks
  return {
    doubtful: false,
    replaced: false,
    get rolledBack() {
      return rolledBack()
    },
    get ended() {
      // If the handler set no savepoint, everything that a ROLLBACK can reach is older than the handler.
      return counted.ends !== ends || (rolledBack() && counted.savepoints === savepoints)
    },
  }
}

function stateOf(status: 'I' | 'T' | 'E' | null): TransactionState {
  return status === null ? 'none' : STATES[status]
}

/** A `pg.Pool`. */
export const pgRoot: RootAdapter<PgPool> = {
  name: 'pg',
  checksCommit: true,
  opensConnections: true,
  recognises: isPool,
  maxConnections: (pool) => pool.options?.max,
  async query(pool, text, values, timeoutMs) {
    // After `query_timeout` pg destroys the connection, so that the pool opens another.
    return toSqlResult(await pool.query({ text, values: values as unknown[], query_timeout: timeoutMs }))
  },
  copyOut(pool) {
    const Query = pool.Client?.Query
    if (Query?.prototype.handleCopyData === undefined) return undefined
    return async (text, timeoutMs, row) => {
      const query = new Query({ text })
      let failure: { readonly error: unknown } | undefined
      query.query_timeout = timeoutMs
      query.handleCopyData = ({ chunk }) => {
        try {
          if (failure === undefined) row(chunk)
        } catch (error) {
          // An error that is thrown here would end the process.
          failure = { error }
        }
      }
      await queryOn(pool, query)
      if (failure !== undefined) throw failure.error
    }
  },
  queryAlone(pool) {
    const Query = pool.Client?.Query
    if (Query?.prototype.prepare === undefined) return undefined
    return async (text, values, limits) =>
      resultOfFlight(await queryOn(pool, asFlight(new Query({ text, values }), limits)))
  },
  async connect(pool) {
    const { client, release } = await checkOut(pool)
    return {
      query: async (text, values) => toSqlResult(await client.query(text, values as unknown[])),
      release,
    } satisfies OwnConnection
  },
  async connectApart(pool, timeoutMs) {
    const client = new pool.Client(apart(pool, timeoutMs))
    client.on('error', () => undefined)
    await client.connect()
    const Query = pool.Client.Query
    return {
      query:
        Query?.prototype.prepare === undefined
          ? async (text, values) => toSqlResult(await client.query(text, values as unknown[]))
          : (text, values) => flyOn(client, new Query({ text, values }), timeoutMs),
      release: () => void client.end().catch(() => undefined),
    } satisfies OwnConnection
  },
  async connectListening(pool, timeoutMs, on) {
    const client = new pool.Client(apart(pool, timeoutMs))
    client.on('error', on.ended)
    await client.connect()
    return listeningOn(client, on)
  },
  async transact(pool, work, isolation) {
    const { client, release } = await checkOut(pool)
    const begin = beginAt(isolation)
    const opening = pgOpening(pool, client, begin)
    let broken = false
    try {
      if (opening === undefined) await client.query(begin)
      const result = await work(client, opening)
      if (opening?.used === false) return result
      const { command } = await client.query(pgStatements.commit)
      if (command !== COMMAND_TAGS.commit) {
        throw new TransactionAbortedError(
          'the server answered COMMIT with a rollback, because a statement of the transaction had failed. Nothing was written.',
        )
      }
      return result
    } catch (error) {
      broken = await rolledBack(client).then(
        () => false,
        () => true,
      )
      throw error
    } finally {
      release(broken)
    }
  },
}

/** Runs a statement in a new transaction. */
async function flyOn(client: PgClient, query: PgQuery, timeoutMs: number): Promise<SqlResult> {
  try {
    const limits = { timeoutMs, cancelAfterMs: timeoutMs * SERVER_SHARE }
    return resultOfFlight(await answerTo(client, asFlight(query, limits)))
  } catch (error) {
    // Without an answer of the server the connection is no longer usable.
    if (typeof Reflect.get(Object(error), 'severity') === 'string') await client.query(pgStatements.rollback)
    throw error
  }
}

/** Returns the options for a client outside the pool. The password is not among the pool's enumerable options. */
function apart(pool: PgPool, timeoutMs: number): object {
  return {
    ...pool.options,
    password: pool.options?.password,
    pipeline: false,
    keepAlive: true,
    query_timeout: timeoutMs,
    connectionTimeoutMillis: timeoutMs,
  }
}

/** Turns a connected `pg` client into a connection for LISTEN. */
export function listeningOn(
  client: object,
  on: { readonly notified: () => void; readonly ended: (error: unknown) => void },
): ListeningConnection {
  const connected = client as PgClient & {
    on(event: string, listener: (value: unknown) => void): unknown
    end(): Promise<void>
  }
  connected.on('notification', on.notified)
  connected.on('error', on.ended)
  connected.on('end', () => on.ended(new Error('The listening connection was closed.')))
  return {
    query: (text) => connected.query(text),
    close: () => void connected.end().catch(() => undefined),
  }
}

/**
 * Checks out a client and adds a listener for its 'error' event: otherwise a client that breaks while idle would end
 * the process.
 */
async function checkOut(pool: PgPool): Promise<{ client: PgClient; release: (broken: boolean) => void }> {
  const client = await pool.connect()
  const ignore = (): void => undefined
  client.on('error', ignore)
  return {
    client,
    release(broken) {
      client.off('error', ignore)
      client.release(broken)
    },
  }
}

/**
 * Runs a query on any connection, and discards a connection on which it has failed. Not by the pool, whose callback the
 * client of Neon's driver does not take for a query of this kind.
 */
async function queryOn(pool: PgPool, query: PgQuery): Promise<unknown> {
  const { client, release } = await checkOut(pool)
  let failed = true
  try {
    const results = await answerTo(client, query)
    failed = false
    return results
  } finally {
    release(failed)
  }
}

async function rolledBack(client: PgClient): Promise<void> {
  if ((await pgHandle.state(client)) !== 'none') await client.query(pgStatements.rollback)
}

function toSqlResult(result: PgResult): SqlResult {
  return { rows: result.rows, affected: result.rowCount ?? 0 }
}

function isPool(value: unknown): value is PgPool {
  return has(value, 'totalCount', 'number') && has(value, 'connect', 'function')
}

function has(value: unknown, name: string, type: string): boolean {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, name) === type
}
