import { setTimeout as pause } from 'node:timers/promises'
import { answerWithin, exponentialBackoff } from '@txbox/core'
import type { SqlResult } from '@txbox/handles'
import { isConflict, isLastingConflict, translate } from './errors.ts'
import { fill, type Value } from './literals.ts'
import { onConnection, type Connections } from './own-connection.ts'
import { shortTransaction, type Run } from './short-transaction.ts'

const ATTEMPTS = 5

/** Of a cluster: the row that was in the way has to come over from the node on which it was changed. */
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

/** A short transaction of several statements, harmless to repeat. */
export async function runTogether<R>(
  source: Source,
  doing: string,
  work: (run: Run) => Promise<R>,
): Promise<R> {
  return again(doing, () =>
    onConnection(source, source.statementTimeoutMs, (query) => shortTransaction(query, work)),
  )
}

/** Makes up to five attempts at what is harmless to repeat, while the database asks for another one. */
export async function again<R>(doing: string, attempt: () => Promise<R>): Promise<R> {
  for (let n = 1; ; n++) {
    try {
      return await attempt()
    } catch (error) {
      if (n === ATTEMPTS || !isConflict(error)) throw translate(error, doing)
      if (isLastingConflict(error)) await pause(LONGER_PAUSE.delayMs(n, Math.random))
    }
  }
}
