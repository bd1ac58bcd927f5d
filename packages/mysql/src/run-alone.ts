import { setTimeout as pause } from 'node:timers/promises'
import { DatabaseUnavailableError, answerWithin, exponentialBackoff } from '@txbox/core'
import type { SqlResult } from '@txbox/sql'
import { bounded, serverTimeoutS } from './bounded-statement.ts'
import { LOCK_WAIT_TIMEOUT, isConflict, isLastingConflict, numberOf, translate } from './errors.ts'
import { fill, optionalTextOf, textOf, type Value } from './literals.ts'
import { onConnection, type Connections } from './own-connection.ts'
import { shortTransaction, type Run } from './short-transaction.ts'

const ATTEMPTS = 5

/** For the few statements that end a late one. */
const KILL_TIMEOUT_MS = 1000

/** For a cluster: the changed row that caused the conflict has to arrive from its node first. */
const LONGER_PAUSE = exponentialBackoff({ minMs: 50, maxMs: 1000 })

/** Where statements go, and how long an answer may take. */
export interface Source extends Connections {
  readonly statementTimeoutMs: number
}

/** One statement that is a transaction of its own, and harmless to repeat. */
export async function runAlone(
  source: Source,
  doing: string,
  text: string,
  values: readonly Value[],
): Promise<SqlResult> {
  const { root, db, statementTimeoutMs } = source
  const statement = fill(text, values)
  return again(doing, async () => {
    const { autocommit } = await source.server()
    // Where connections do not commit by themselves, a read would keep its snapshot for ever.
    return autocommit
      ? answerWithin(statementTimeoutMs, root.query(db, statement, [], statementTimeoutMs))
      : onConnection(source, statementTimeoutMs, (query) => query(statement, []))
  })
}

/**
 * The same, but the server gives the statement up when it is late. Otherwise a relay would leave a connection behind for
 * each statement that waits for a lock.
 */
export async function runBounded(
  source: Source,
  doing: string,
  text: string,
  values: readonly Value[],
): Promise<SqlResult> {
  const { engine } = await source.server()
  const statement = bounded(fill(text, values), engine, source.statementTimeoutMs)
  try {
    return await runAlone(source, doing, statement, [])
  } catch (error) {
    // Here it is the wait for a row that MySQL bounds for a whole session only.
    if (engine === 'mysql' && error instanceof DatabaseUnavailableError) await killLate(source, statement)
    throw error
  }
}

/** Ends the connection of an abandoned statement. If that fails, the statement ends by itself later. */
async function killLate({ root, db }: Source, statement: string): Promise<void> {
  const run = (text: string): Promise<SqlResult> =>
    answerWithin(KILL_TIMEOUT_MS, root.query(db, text, [], KILL_TIMEOUT_MS))
  try {
    const { rows } = await run('show full processlist')
    const late = rows.filter((row) => optionalTextOf(row['Info']) === statement.trim())
    for (const row of late) await run(`kill ${Number(textOf(row['Id']))}`)
  } catch {
    // The error of the statement itself is the one to report.
  }
}

/** A short transaction of several statements, harmless to repeat. */
export async function runTogether<R>(
  source: Source,
  doing: string,
  work: (run: Run) => Promise<R>,
): Promise<R> {
  return again(doing, () =>
    onConnection(source, source.statementTimeoutMs, (query) =>
      shortTransaction(query, serverTimeoutS(source.statementTimeoutMs), work),
    ),
  )
}

/** Makes up to five attempts at work that is harmless to repeat, as long as the database asks for another attempt. */
export async function again<R>(doing: string, attempt: () => Promise<R>): Promise<R> {
  for (let n = 1; ; n++) {
    try {
      return await attempt()
    } catch (error) {
      // A transaction that holds a lock for so long will not end in a moment.
      const again = isConflict(error) && numberOf(error) !== LOCK_WAIT_TIMEOUT
      if (n === ATTEMPTS || !again) throw translate(error, doing)
      if (isLastingConflict(error)) await pause(LONGER_PAUSE.delayMs(n, Math.random))
    }
  }
}
