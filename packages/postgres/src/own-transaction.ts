/*
 * Only PostgreSQL bounds statements by a transaction of its own; MySQL and MariaDB have hints for that, and short
 * transactions.
 */
import { answerWithin } from '@txbox/core/internal'
import { tooLate, type OwnConnection, type Source } from '@txbox/sql'
import { hasCode } from './errors.ts'
import { ownTransactionStatements, together } from './own-transaction-statements.ts'

export type Query = OwnConnection['query']

/**
 * Runs work in a new READ COMMITTED transaction, for several statements, or for a library that sends one statement after the
 * other. The server cancels a late statement. If the whole is late, it is rolled back. The connection stays in use until
 * the server has canceled the statement, because such a library cannot discard a connection.
 */
export async function inOwnTransaction<R>(
  { root, db, statementTimeoutMs }: Source,
  mostMs: number,
  work: (query: Query) => Promise<R>,
): Promise<R> {
  const { commit, rollback } = ownTransactionStatements
  let late = false
  const run = async (): Promise<R> => {
    const { query, release } = await root.connect(db)
    let broken = false
    try {
      // The connection arrived too late, but is still usable.
      if (late) throw tooLate()
      await begin(db as object, query, mostMs)
      const result = await work(query)
      if (late) throw tooLate()
      await query(commit, [])
      return result
    } catch (error) {
      await query(rollback, []).catch(() => (broken = true))
      throw error
    } finally {
      release(broken)
    }
  }
  try {
    return await answerWithin(statementTimeoutMs, run())
  } finally {
    late = true
  }
}

/** Roots that accept only one statement in a text: a Kysely on PGlite. */
const oneStatementOnly = new WeakSet<object>()

const SYNTAX_ERROR = '42601'

async function begin(db: object, query: OwnConnection['query'], mostMs: number): Promise<void> {
  const { begin, limitStatement, limitIdleTime } = ownTransactionStatements
  const statements = [begin, limitStatement(mostMs), limitIdleTime]
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
