import { TransactionAbortedError } from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'
import type { SqlResult } from '../adapters.ts'
import type {
  ListeningConnection,
  ListeningEvents,
  OwnConnection,
  RootAdapter,
  Statement,
} from '../root-adapter.ts'
import { cancelAfterMs } from '../deadline.ts'
import { isStale } from './stale-connection.ts'
import { discardDeadIdle } from './idle-connections.ts'
import { answerTo, asFlight, asOneFlight, resultOfFlight, type FlyingQuery } from './pg-flight.ts'
import { lentBy } from '../pool-waits.ts'
import { pgOpening } from './pg-opening.ts'
import { COMMAND_TAGS, beginAt, pgStatements } from './pg-statements.ts'
import { isPool, pgHandle, toSqlResult, type PgClient, type PgResult } from './pg.ts'

interface PgPool {
  connect(): Promise<PgClient & { release(destroy?: boolean): void }>
  readonly idleCount?: number
  readonly totalCount?: number
  readonly waitingCount?: number
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

export const pgRoot: RootAdapter<PgPool> = {
  name: 'pg',
  checksCommit: true,
  limitsIdleTime: true,
  recognises: (root): root is PgPool => isPool(root),
  maxConnections: (pool) => pool.options?.max,
  async query(pool, text, values, timeoutMs) {
    const { client, release } = await checkOut(pool)
    let result: PgResult
    try {
      result = await client.query({ text, values: values as unknown[], query_timeout: timeoutMs })
    } catch (error) {
      release(true)
      if (!isAnswer(error)) checkIdle(pool)
      throw error
    }
    release(false)
    return toSqlResult(result)
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
          // If this code threw the error, the process would end.
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
    const Query = pool.Client?.Query
    let released = false
    const giveBack = (broken: boolean): void => {
      if (released) return
      released = true
      release(broken)
      if (broken) checkIdle(pool)
    }
    return {
      query: async (text, values) => toSqlResult(await client.query(text, values as unknown[])),
      ...(Query?.prototype.prepare !== undefined && {
        queryAll: (statements: readonly Statement[]) => flyTogether(client, Query, statements),
      }),
      release: giveBack,
      abandon() {
        // In its pipeline mode, pg would wait for the answers before it closes the connection.
        pgHandle.sever!(client)
        giveBack(true)
      },
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
      release(broken) {
        void client.end().catch(() => undefined)
        if (broken) checkIdle(pool)
      },
    } satisfies OwnConnection
  },
  async connectListening(pool, timeoutMs, on) {
    const client = new pool.Client(apart(pool, timeoutMs))
    client.on('error', on.ended)
    await client.connect()
    return listeningOn(client, on)
  },
  async transact(pool, work, isolation, idleLimitMs) {
    const { client, release } = await checkOut(pool)
    const begin = beginAt(isolation, idleLimitMs)
    const opening = pgOpening(pool, client, begin)
    let broken = false
    try {
      if (opening === undefined) await client.query(begin.join('; '))
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
        () => isStale(error),
        () => true,
      )
      throw error
    } finally {
      release(broken)
      if (broken) checkIdle(pool)
    }
  },
}

/** Call this when a connection of the pool gave no answer, after the connection was given back. */
function checkIdle(pool: PgPool): void {
  discardDeadIdle({
    pool,
    // The pool lends idle connections to earlier callers first.
    count: Number(pool.idleCount) - Number(pool.waitingCount),
    async lend() {
      const { client, release } = await checkOut(pool)
      return {
        ask: () => client.query(pgStatements.check),
        release(broken) {
          if (broken) pgHandle.sever!(client)
          release(broken)
        },
      }
    },
  })
}

/** Returns whether the error was sent by the server. */
function isAnswer(error: unknown): boolean {
  return typeof propertyOf(error, 'severity') === 'string'
}

/** Runs a statement in a new transaction. */
async function flyOn(client: PgClient, query: PgQuery, timeoutMs: number): Promise<SqlResult> {
  try {
    const limits = { timeoutMs, cancelAfterMs: cancelAfterMs(timeoutMs) }
    return resultOfFlight(await answerTo(client, asFlight(query, limits)))
  } catch (error) {
    // If the error does not come from the server, the connection is no longer usable.
    if (isAnswer(error)) await client.query(pgStatements.rollback)
    throw error
  }
}

async function flyTogether(
  client: PgClient,
  Query: new (config: Statement) => PgQuery,
  statements: readonly Statement[],
): Promise<readonly SqlResult[]> {
  const [first, ...more] = statements.map((statement) => new Query(statement))
  if (first === undefined) return []
  const results = await answerTo(client, asOneFlight([first, ...more]))
  return [results as PgResult | readonly PgResult[]].flat().map(toSqlResult)
}

/**
 * Returns the options for a client outside of the pool. The password is added separately, because it is not among the
 * pool's enumerable options.
 */
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
export function listeningOn(client: object, on: ListeningEvents): ListeningConnection {
  const connected = client as PgClient & {
    on(event: string, listener: (value: unknown) => void): unknown
    end(): Promise<void>
  }
  connected.on('notification', (notification) =>
    on.notified(propertyOf(notification, 'payload'), propertyOf(notification, 'channel')),
  )
  connected.on('error', on.ended)
  connected.on('end', () => on.ended(new Error('The listening connection was closed.')))
  return {
    query: (text) => connected.query(text),
    close: () => void connected.end().catch(() => undefined),
    processId: propertyOf(connected, 'processID'),
  }
}

/**
 * Checks out a client and adds a listener for its 'error' event: otherwise a client that breaks while idle would end
 * the process.
 */
async function checkOut(pool: PgPool): Promise<{ client: PgClient; release: (broken: boolean) => void }> {
  const client = await lentBy(isFull(pool), () => pool.connect())
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

function isFull({ idleCount, totalCount, options }: PgPool): boolean {
  return idleCount === 0 && totalCount !== undefined && totalCount >= (options?.max ?? Infinity)
}

/**
 * Runs a query on any connection, and discards the connection if the query fails. The method `query` of the pool is not
 * used: with Neon's driver, its callback does not recognize a query of this kind.
 */
async function queryOn(pool: PgPool, query: PgQuery): Promise<unknown> {
  const { client, release } = await checkOut(pool)
  let results: unknown
  try {
    results = await answerTo(client, query)
  } catch (error) {
    release(true)
    if (!isAnswer(error)) checkIdle(pool)
    throw error
  }
  release(false)
  return results
}

async function rolledBack(client: PgClient): Promise<void> {
  if ((await pgHandle.state(client)) !== 'none') await client.query(pgStatements.rollback)
}
