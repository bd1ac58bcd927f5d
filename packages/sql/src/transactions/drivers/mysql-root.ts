import { propertyOf } from '@txbox/core/internal'
import { isStale } from './stale-connection.ts'
import type { SqlResult } from '../adapters.ts'
import type { Isolation, OwnConnection, RootAdapter } from '../root-adapter.ts'
import { lentBy } from '../pool-waits.ts'
import { discardDeadIdle } from './idle-connections.ts'
import { SET_ISOLATION, mysql2Statements } from './mysql2-statements.ts'

/**
 * A BEGIN waits for no lock: without an answer within this time, the connection is dead. Nothing else would notice it
 * before the system gives the connection up, which can take a quarter of an hour.
 */
const BEGIN_TIMEOUT_MS = 5000

interface LentConnection extends OwnConnection {
  /** The connection as the pool returns it. */
  readonly tx: unknown
  /** Rejects if there is no answer within `timeoutMs`. */
  readonly query: (text: string, values: readonly unknown[], timeoutMs?: number) => Promise<SqlResult>
}

/** The parts that differ between the connectors for MySQL and MariaDB. */
interface MysqlPools<P> extends Pick<RootAdapter<P>, 'name' | 'recognises' | 'maxConnections'> {
  readonly lend: (pool: P) => Promise<LentConnection>
  /** Returns whether the pool has lent all of its connections. */
  readonly isFull: (pool: P) => boolean
  /** Returns whether the error was sent by the server, so that the connection is still usable. */
  readonly isAnswer: (error: unknown) => boolean
  /**
   * Returns the driver's own pool, and the number of its idle connections. Absent if the pool asks an idle connection for a
   * sign of life before it lends the connection.
   */
  readonly idle?: (pool: P) => { readonly pool: object; readonly count: number }
}

/** The pool replaces a connection that breaks. */
export function mysqlRoot<P>({
  lend: lendFrom,
  isFull,
  isAnswer,
  idle,
  ...own
}: MysqlPools<P>): RootAdapter<P> {
  const checkIdle = (pool: P): void => {
    if (idle === undefined) return
    discardDeadIdle({
      ...idle(pool),
      async lend() {
        const { query, release } = await lendFrom(pool)
        return { ask: () => query(mysql2Statements.check, []), release }
      },
    })
  }
  const lend = async (pool: P): Promise<LentConnection> => {
    const lent = await lentBy(isFull(pool), () => lendFrom(pool))
    return {
      ...lent,
      release(broken) {
        lent.release(broken)
        if (broken) checkIdle(pool)
      },
    }
  }
  return {
    ...own,
    checksCommit: true,
    limitsIdleTime: true,
    async query(pool, text, values, timeoutMs) {
      const { query, release } = await lend(pool)
      let answered = false
      try {
        const result = await query(text, values, timeoutMs)
        answered = true
        return result
      } catch (error) {
        answered = isAnswer(error) && !isStale(error)
        throw error
      } finally {
        release(!answered)
      }
    },
    connect: lend,
    async transact(pool, work, isolation, idleLimitMs) {
      return transactOn(await lend(pool), work, { isolation, idleLimitMs })
    },
  }
}

interface Limits {
  readonly isolation: Isolation | undefined
  readonly idleLimitMs: number | undefined
}

async function transactOn<T>(
  { tx, query, release }: LentConnection,
  work: (tx: unknown, opening: undefined) => Promise<T>,
  { isolation, idleLimitMs }: Limits,
): Promise<T> {
  let broken = true
  const run: OwnConnection['query'] = (text, values) => query(text, values, BEGIN_TIMEOUT_MS)
  try {
    if (idleLimitMs !== undefined) {
      const seconds = Math.max(1, Math.ceil(idleLimitMs / 1000))
      await prepare(run, mysql2Statements.limitIdleTime(seconds, isolation))
    } else if (isolation !== undefined) await prepare(run, SET_ISOLATION[isolation])
    await run(mysql2Statements.begin, [])
    broken = false
    const result = await work(tx, undefined)
    await query(mysql2Statements.commit, [])
    return result
  } catch (error) {
    broken ||= await query(mysql2Statements.rollback, []).then(
      () => isStale(error),
      () => true,
    )
    throw error
  } finally {
    if (broken || idleLimitMs === undefined) release(broken)
    // Nobody waits for the setting: the next borrower of the connection does.
    else {
      void run(mysql2Statements.restoreIdleTime, []).then(
        () => release(false),
        () => release(true),
      )
    }
  }
}

/** The server's error: transaction characteristics can't be changed while a transaction is in progress. */
const IN_PROGRESS = 1568

/** Runs a statement that sets the level of the next transaction. */
async function prepare(query: OwnConnection['query'], statement: string): Promise<void> {
  try {
    await query(statement, [])
  } catch (error) {
    if (propertyOf(error, 'errno') !== IN_PROGRESS) throw error
    // With autocommit off, an earlier read has left a transaction open, which START TRANSACTION would commit as well.
    await query(mysql2Statements.commit, [])
    await query(statement, [])
  }
}

/** https://dev.mysql.com/doc/dev/mysql-server/latest/mysql__com_8h.html: SERVER_STATUS_flags_enum */
const IN_TRANSACTION = 1
const AUTOCOMMIT = 2

/** `status` has the flags of the server's answer, if the connector shows them. */
export function resultOf(result: unknown, status: number | null | undefined): SqlResult {
  if (Array.isArray(result)) return { rows: result as SqlResult['rows'], affected: 0 }
  return {
    rows: [],
    affected: Number(propertyOf(result, 'affectedRows') ?? 0),
    insertId: Number(propertyOf(result, 'insertId') ?? 0),
    // With autocommit off, every write is in a transaction, even if the flag does not show it yet.
    inTransaction:
      typeof status === 'number' ? (status & IN_TRANSACTION) !== 0 || (status & AUTOCOMMIT) === 0 : undefined,
  }
}
