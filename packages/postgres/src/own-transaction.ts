import { answerWithin } from '@txbox/core'
import type { OwnConnection, SqlResult } from '@txbox/sql'
import { hasCode } from './errors.ts'
import type { Source } from './run-alone.ts'

/**
 * Runs one statement in a READ COMMITTED transaction of its own, cancelled by the server when it is late, for a library that
 * sends one statement after the other. If the answer is late, the connection stays taken until the server has given the
 * statement up, since such a library cannot discard a connection.
 */
export async function inOwnTransaction(
  { root, db, statementTimeoutMs }: Source,
  cancelAfterMs: number,
  text: string,
  values: readonly unknown[],
): Promise<SqlResult> {
  let late = false
  const run = async (): Promise<SqlResult> => {
    const { query, release } = await root.connect(db)
    let broken = false
    try {
      // The connection arrived too late, but is still usable.
      if (late) throw new Error('Nobody waits for this connection any more.')
      await begin(db as object, query, cancelAfterMs)
      const result = await query(text, values)
      await query('commit', [])
      return result
    } catch (error) {
      await query('rollback', []).catch(() => (broken = true))
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

/** Roots that take one statement in a text: a Kysely on PGlite. */
const oneStatementOnly = new WeakSet<object>()

const SYNTAX_ERROR = '42601'

async function begin(db: object, query: OwnConnection['query'], mostMs: number): Promise<void> {
  const statements = beginning(mostMs)
  if (!oneStatementOnly.has(db)) {
    try {
      await query(statements.join('; '), [])
      return
    } catch (error) {
      if (!hasCode(error, SYNTAX_ERROR)) throw error
      oneStatementOnly.add(db)
    }
  }
  for (const statement of statements) await query(statement, [])
}

/** If this process stands still between two statements, the server soon ends the transaction, and its locks. */
function beginning(mostMs: number): readonly string[] {
  return [
    'begin isolation level read committed',
    `set local statement_timeout = ${mostMs}`,
    'set local idle_in_transaction_session_timeout = 2000',
  ]
}
