/*
 * Only PostgreSQL limits the time of statements by a transaction around them; MySQL and MariaDB have hints and short
 * transactions for that.
 */
import {
  cancelAfterMs,
  isStale,
  tooLate,
  withinPool,
  type OwnConnection,
  type StatementRoot,
  type SqlResult,
  type Statement,
} from '@txbox/sql/transactions'
import { hasCode } from './errors.ts'
import { ownTransactionStatements, together } from './own-transaction-statements.ts'

export type Query = OwnConnection['query']

/** A transaction that txbox has opened for its own statements. */
export interface OwnTransaction {
  readonly query: Query
  /** Runs statements one after the other, in one flight if the library supports that. */
  readonly queryAll: (statements: readonly Statement[]) => Promise<readonly SqlResult[]>
  /** Runs the last statements and commits. No statement may follow. */
  readonly commitWith: (statements: readonly Statement[]) => Promise<readonly SqlResult[]>
}

/** The time after which the server must cancel a statement, in whole milliseconds. */
export function serverTimeoutMs({ statementTimeoutMs }: Pick<StatementRoot, 'statementTimeoutMs'>): number {
  return Math.ceil(cancelAfterMs(statementTimeoutMs))
}

/**
 * Runs work in a new READ COMMITTED transaction: several statements, or one statement of a library that sends one
 * statement after the other. The server cancels a late statement. If the work as a whole is late, it is rolled back. In
 * that case the connection is closed, or, if the library cannot do this, stays in use until the server has canceled the
 * statement.
 */
export async function inOwnTransaction<R>(
  source: StatementRoot,
  work: (transaction: OwnTransaction) => Promise<R>,
): Promise<R> {
  const { root, db, statementTimeoutMs } = source
  let late = false
  let inUse: OwnConnection | undefined
  const run = async (): Promise<R> => {
    const connection = await root.connect(db)
    inUse = connection
    let broken = false
    try {
      // The connection was opened too late for this call, but can be used by others.
      if (late) throw tooLate()
      const transaction = await opened(db as object, connection, serverTimeoutMs(source), () => late)
      const result = await work(transaction)
      if (!transaction.isCommitted()) await transaction.commitWith([])
      return result
    } catch (error) {
      await connection.query(ownTransactionStatements.rollback, []).catch(() => (broken = true))
      broken ||= isStale(error)
      throw error
    } finally {
      inUse = undefined
      connection.release(broken)
    }
  }
  try {
    return await withinPool(run, statementTimeoutMs)
  } finally {
    late = true
    inUse?.abandon?.()
  }
}

/** If the library can send several statements in one flight, the first statements are sent together with BEGIN. */
async function opened(
  db: object,
  connection: OwnConnection,
  mostMs: number,
  isLate: () => boolean,
): Promise<OwnTransaction & { readonly isCommitted: () => boolean }> {
  const { begin, limitStatement, limitIdleTime, commit } = ownTransactionStatements
  const texts = [begin, limitStatement(mostMs), limitIdleTime]
  let opening: readonly Statement[] = []
  if (connection.queryAll === undefined) await openAlone(db, connection.query, texts)
  else opening = texts.map(withoutValues)
  let isCommitted = false
  const queryAll = async (statements: readonly Statement[]): Promise<readonly SqlResult[]> => {
    if (connection.queryAll === undefined) return oneByOne(connection.query, statements)
    const before = opening
    opening = []
    return (await connection.queryAll([...before, ...statements])).slice(before.length)
  }
  return {
    queryAll,
    query: async (text, values) => (await queryAll([{ text, values }]))[0]!,
    async commitWith(statements) {
      if (isLate()) throw tooLate()
      isCommitted = true
      return queryAll([...statements, withoutValues(commit)])
    },
    isCommitted: () => isCommitted,
  }
}

async function oneByOne(query: Query, statements: readonly Statement[]): Promise<readonly SqlResult[]> {
  const results: SqlResult[] = []
  for (const { text, values } of statements) results.push(await query(text, values))
  return results
}

function withoutValues(text: string): Statement {
  return { text, values: [] }
}

/** Roots that accept only one statement per text, such as a Kysely on PGlite. */
const oneStatementOnly = new WeakSet<object>()

const SYNTAX_ERROR = '42601'

async function openAlone(db: object, query: Query, statements: readonly string[]): Promise<void> {
  if (!oneStatementOnly.has(db)) {
    try {
      await query(together(statements), [])
      return
    } catch (error) {
      if (!hasCode(error, SYNTAX_ERROR)) throw error
      oneStatementOnly.add(db)
    }
  }
  for (const statement of statements) await query(statement, [])
}
